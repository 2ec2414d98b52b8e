// A reference to a callable, without owning or allocating: for arguments that
// are called before the function returns. Not for storing.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace cleave::rt {

template <typename Signature> class FunctionRef;

template <typename Result, typename... Args> class FunctionRef<Result(Args...)> {
public:
  template <typename Callable>
    requires(!std::is_same_v<std::remove_cvref_t<Callable>, FunctionRef> &&
             std::is_invocable_r_v<Result, Callable &, Args...>)
  FunctionRef(Callable &&callable)
      : object(const_cast<void *>(static_cast<const void *>(std::addressof(callable)))),
        invoke([](void *object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<Callable> *>(object))(
              std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return invoke(object, std::forward<Args>(args)...); }

private:
  void *object;
  Result (*invoke)(void *, Args...);
};

} // namespace cleave::rt
