// Matrix products, c[m × n] = a[m × k] · b[k × n], in tiles: a block computes a tile of c, its
// warps parts of it. Tiles of a and b come into shared memory as they lie in memory, the next
// one while the last is multiplied. A problem P states types, sizes, strides and the tile; sums
// are in order of k in float.

__device__ __forceinline__ float toFloat(float x) { return x; }
__device__ __forceinline__ void fromFloat(float &to, float x) { to = x; }
__device__ __forceinline__ void fromFloat(bf16 &to, float x) { to = toBf16(x); }

// A tile of `lines` × `length` elements in shared memory; a line is what lies side by side. Lines
// are apart by 16 bytes more than they are long, so that eight of them begin in different banks.
template <class T, int lines, int length> struct SharedTile {
  static constexpr int perCopy = 16 / sizeof(T);
  static constexpr int pitch = length + perCopy;
  static constexpr int size = lines * pitch;

  // Asynchronously if a line is `whole`: aligned to 16 bytes, elements side by side. `place` is
  // the offset of a line, or less than zero where there is none.
  template <int threads, bool whole, class Place>
  static __device__ __forceinline__ void load(T *to, const T *from, long long step, int left,
                                              const Place &place) {
    if (whole) {
      constexpr int copies = length / perCopy;
#pragma unroll
      for (int first = 0; first < lines * copies; first += threads) {
        const int i = first + threadIdx.x, line = i / copies, at = i % copies * perCopy;
        if (lines * copies % threads != 0 && i >= lines * copies)
          break;
        const long long offset = place(line);
        const int count = offset < 0 ? 0 : min(max(left - at, 0), perCopy);
        copyAsync16(to + line * pitch + at, count > 0 ? from + offset + at : from,
                    count * (int)sizeof(T));
      }
    } else {
      for (int i = threadIdx.x; i < lines * length; i += threads) {
        const int line = i / length, at = i % length;
        const long long offset = place(line);
        T value = T();
        if (offset >= 0 && at < left)
          value = from[offset + at * step];
        to[line * pitch + at] = value;
      }
    }
  }
};

// Places of lines that follow each other.
struct Lines {
  long long first, stride;
  int left;
  __device__ __forceinline__ long long operator()(int line) const {
    return line < left ? first + line * stride : -1;
  }
};

template <class P> struct ProductTiles {
  typedef typename P::Operand Operand;
  // A line is what has stride one: along k, else along m or n.
  static constexpr bool aAlongK = P::aColumn == 1 || P::aRow != 1;
  static constexpr bool bAlongK = P::bRow == 1 || P::bColumn != 1;
  typedef SharedTile<Operand, aAlongK ? P::tileM : P::tileK, aAlongK ? P::tileK : P::tileM> A;
  typedef SharedTile<Operand, bAlongK ? P::tileN : P::tileK, bAlongK ? P::tileK : P::tileN> B;
  static constexpr int stage = A::size + B::size;

  static __device__ __forceinline__ void load(Operand *to, const Operand *a, const Operand *b,
                                              int row, int column, int k) {
    if (aAlongK)
      A::template load<P::threads, P::aWhole>(
          to, a, P::aColumn, P::k - k,
          Lines{row * (long long)P::aRow + k * (long long)P::aColumn, P::aRow, P::m - row});
    else
      A::template load<P::threads, P::aWhole>(
          to, a, P::aRow, P::m - row,
          Lines{row * (long long)P::aRow + k * (long long)P::aColumn, P::aColumn, P::k - k});
    if (bAlongK)
      B::template load<P::threads, P::bWhole>(
          to + A::size, b, P::bRow, P::k - k,
          Lines{column * (long long)P::bColumn + k * (long long)P::bRow, P::bColumn,
                P::n - column});
    else
      B::template load<P::threads, P::bWhole>(
          to + A::size, b, P::bColumn, P::n - column,
          Lines{column * (long long)P::bColumn + k * (long long)P::bRow, P::bRow, P::k - k});
  }
};

// The sums of a warp in registers, by tensor cores: 16 × 8 tiles of c.
template <class P> struct TensorSums {
  typedef ProductTiles<P> Tiles;
  typedef typename Tiles::A A;
  typedef typename Tiles::B B;
  static constexpr int rows = P::tileM / P::warpsM, columns = P::tileN / P::warpsN;
  static constexpr int tall = rows / 16, wide = columns / 8;
  float sums[tall][wide][4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < tall * wide * 4; ++i)
      sums[i / (wide * 4)][i / 4 % wide][i % 4] = 0;
  }
  static __device__ __forceinline__ int firstRow() { return threadIdx.x / 32 / P::warpsN * rows; }
  static __device__ __forceinline__ int firstColumn() {
    return threadIdx.x / 32 % P::warpsN * columns;
  }

  __device__ __forceinline__ void multiply(const bf16 *tiles) {
    const int lane = threadIdx.x % 32;
    const bf16 *b = tiles + A::size;
#pragma unroll
    for (int k = 0; k < P::tileK; k += 16) {
      unsigned left[tall][4], right[wide][2];
#pragma unroll
      for (int i = 0; i < tall; ++i) {
        const int row = firstRow() + 16 * i;
        if (Tiles::aAlongK)
          loadMatrices<4>(left[i], tiles + (row + lane % 16) * A::pitch + k + lane / 16 * 8);
        else
          loadMatricesTransposed<4>(left[i], tiles + (k + lane % 8 + lane / 16 * 8) * A::pitch +
                                                 row + lane / 8 % 2 * 8);
      }
#pragma unroll
      for (int j = 0; j < wide; j += 2) {
        const int column = firstColumn() + 8 * j;
        if (Tiles::bAlongK)
          loadMatrices<4>(right[j], b + (column + lane % 8 + lane / 16 * 8) * B::pitch + k +
                                        lane / 8 % 2 * 8);
        else
          loadMatricesTransposed<4>(right[j], b + (k + lane % 16) * B::pitch + column +
                                                  lane / 16 * 8);
      }
#pragma unroll
      for (int i = 0; i < tall; ++i)
#pragma unroll
        for (int j = 0; j < wide; ++j)
          multiplyBf16(sums[i][j], left[i], right[j]);
    }
  }

  template <class Store> __device__ __forceinline__ void forEach(const Store &store) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < tall; ++i)
#pragma unroll
      for (int j = 0; j < wide; ++j)
#pragma unroll
        for (int at = 0; at < 4; ++at)
          store(firstRow() + 16 * i + lane / 4 + at / 2 * 8,
                firstColumn() + 8 * j + lane % 4 * 2 + at % 2, sums[i][j][at]);
  }
};

// The sums of a thread in registers, in float: every n-th row and column of the tile.
template <class P> struct FloatSums {
  typedef ProductTiles<P> Tiles;
  typedef typename Tiles::A A;
  typedef typename Tiles::B B;
  static constexpr int across = 16, down = P::threads / across;
  static constexpr int tall = P::tileM / down, wide = P::tileN / across;
  float sums[tall][wide];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < tall * wide; ++i)
      sums[i / wide][i % wide] = 0;
  }
  __device__ __forceinline__ void multiply(const float *tiles) {
    const int row = threadIdx.x / across, column = threadIdx.x % across;
    const float *b = tiles + A::size;
#pragma unroll 4
    for (int k = 0; k < P::tileK; ++k) {
      float left[tall], right[wide];
#pragma unroll
      for (int i = 0; i < tall; ++i)
        left[i] = Tiles::aAlongK ? tiles[(row + down * i) * A::pitch + k]
                                 : tiles[k * A::pitch + row + down * i];
#pragma unroll
      for (int j = 0; j < wide; ++j)
        right[j] = Tiles::bAlongK ? b[(column + across * j) * B::pitch + k]
                                  : b[k * B::pitch + column + across * j];
#pragma unroll
      for (int i = 0; i < tall; ++i)
#pragma unroll
        for (int j = 0; j < wide; ++j)
          sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
    }
  }
  template <class Store> __device__ __forceinline__ void forEach(const Store &store) const {
    const int row = threadIdx.x / across, column = threadIdx.x % across;
#pragma unroll
    for (int i = 0; i < tall; ++i)
#pragma unroll
      for (int j = 0; j < wide; ++j)
        store(row + down * i, column + across * j, sums[i][j]);
  }
};

template <class P, class T> struct SumsFor {
  typedef FloatSums<P> Type;
};
template <class P> struct SumsFor<P, bf16> {
  typedef TensorSums<P> Type;
};

// Puts sums of a tile into c.
template <class P> struct ProductStore {
  typename P::Result *c;
  int row, column;
  __device__ __forceinline__ void operator()(int i, int j, float sum) const {
    if (row + i >= P::m || column + j >= P::n)
      return;
    typename P::Result &to = c[(row + i) * (long long)P::cRow + (column + j) * (long long)P::cColumn];
    fromFloat(to, P::add ? toFloat(to) + sum : sum);
  }
};

// `tiles` are two stages in shared memory, which no template may declare for the shim.
template <class P>
__device__ __forceinline__ void multiplyMatrices(const typename P::Operand *a,
                                                 const typename P::Operand *b,
                                                 typename P::Result *c,
                                                 typename P::Operand *tiles) {
  typedef typename P::Operand Operand;
  typedef ProductTiles<P> Tiles;
  constexpr int stage = Tiles::stage;
  constexpr int tilesM = (P::m + P::tileM - 1) / P::tileM, tilesN = (P::n + P::tileN - 1) / P::tileN;
  constexpr int steps = (P::k + P::tileK - 1) / P::tileK;

  P::choose(blockIdx.x / (tilesM * tilesN), a, b, c);
  const int tile = blockIdx.x % (tilesM * tilesN);
  const int row = tile / tilesN * P::tileM, column = tile % tilesN * P::tileN;
  typename SumsFor<P, Operand>::Type sums;
  sums.clear();
  Tiles::load(tiles, a, b, row, column, 0);
  commitCopies();
  for (int step = 0; step < steps; ++step) {
    waitForCopies<0>();
    // The tile is there for all, and nobody reads the one that the next copies go to.
    __syncthreads();
    if (step + 1 < steps)
      Tiles::load(tiles + (step + 1) % 2 * stage, a, b, row, column, (step + 1) * P::tileK);
    commitCopies();
    sums.multiply(tiles + step % 2 * stage);
  }
  sums.forEach(ProductStore<P>{c, row, column});
}
