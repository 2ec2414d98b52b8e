// The message library is MPI. The only file that sees mpi.h: a shared library of
// its own, since MPI has no common ABI, which a training binary opens when it was
// launched by several processes. For another MPI than Cleave was built with:
//
//   mpicxx -O2 -shared -fPIC -I CLEAVE MPI/Plugin.cpp -o libcleave_mpi.so
//
// and CLEAVE_MPI_PLUGIN=/path/libcleave_mpi.so for the run. C++ bindings and
// exceptions of MPI are not used.
#include "runtime/Comm/Transport.h"

#include <mpi.h>

#include <cstdio>
#include <cstring>

namespace {

MPI_Comm all = MPI_COMM_NULL;
char library[MPI_MAX_LIBRARY_VERSION_STRING];

static_assert(sizeof(MPI_Request) <= sizeof(CleaveRequest), "a request fits into its words");

/// The first words of "Open MPI v4.1.4, package: Debian OpenMPI, ident: …".
void nameLibrary() {
  int length = 0;
  if (MPI_Get_library_version(library, &length) != MPI_SUCCESS)
    std::snprintf(library, sizeof library, "MPI");
  library[std::strcspn(library, ",\n")] = '\0';
}

int allGather(void *, const void *mine, int bytes, void *gathered) {
  return MPI_Allgather(mine, bytes, MPI_BYTE, gathered, bytes, MPI_BYTE, all);
}

int send(void *, const void *data, int bytes, int to, int tag, CleaveRequest *request) {
  MPI_Request made = MPI_REQUEST_NULL;
  const int code = MPI_Isend(data, bytes, MPI_BYTE, to, tag, all, &made);
  std::memcpy(request, &made, sizeof made);
  return code;
}

int receive(void *, void *data, int bytes, int from, int tag, CleaveRequest *request) {
  MPI_Request made = MPI_REQUEST_NULL;
  const int code = MPI_Irecv(data, bytes, MPI_BYTE, from, tag, all, &made);
  std::memcpy(request, &made, sizeof made);
  return code;
}

int test(void *, CleaveRequest *request, int *done, int *bytes) {
  MPI_Request held;
  std::memcpy(&held, request, sizeof held);
  MPI_Status status;
  const int code = MPI_Test(&held, done, &status);
  std::memcpy(request, &held, sizeof held);
  int kind = MPI_SUCCESS;
  MPI_Error_class(code, &kind);
  if (kind == MPI_ERR_TRUNCATE) {
    *done = 1;
    *bytes = -1;
    return MPI_SUCCESS;
  }
  if (code != MPI_SUCCESS || !*done)
    return code;
  return MPI_Get_count(&status, MPI_BYTE, bytes);
}

void describe(void *, int code, char *text, int capacity) {
  char message[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, message, &length);
  std::snprintf(text, static_cast<size_t>(capacity), "%s", message);
}

int close(void *) {
  const int code = MPI_Comm_free(&all);
  return code != MPI_SUCCESS ? code : MPI_Finalize();
}

} // namespace

extern "C" int cleaveOpenTransport(int version, CleaveTransport *transport) {
  if (version != cleaveTransportVersion)
    return -1;
  int level = MPI_THREAD_SINGLE;
  int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
  if (code != MPI_SUCCESS)
    return code;
  // Errors come back as codes: the run has its own way to end.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (level < MPI_THREAD_SERIALIZED)
    return MPI_ERR_OTHER;
  code = MPI_Comm_dup(MPI_COMM_WORLD, &all);
  if (code != MPI_SUCCESS)
    return code;
  MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
  MPI_Comm_rank(all, &transport->process);
  MPI_Comm_size(all, &transport->processes);
  void *highest = nullptr;
  int known = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void *>(&highest), &known);
  transport->highestTag = known ? *static_cast<int *>(highest) : 32767;
  nameLibrary();
  transport->library = library;
  transport->context = nullptr;
  transport->allGather = allGather;
  transport->send = send;
  transport->receive = receive;
  transport->test = test;
  transport->describe = describe;
  transport->close = close;
  transport->connection = nullptr;
  return MPI_SUCCESS;
}
