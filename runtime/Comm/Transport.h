// What the world over several processes asks of a message library, as a table of
// C functions: messages between two processes, in order for each sender and tag,
// and one exchange at the start. Comm/TCP fills the table, or a plugin does (Comm/MPI
// is one). It is plain C so that a plugin can be one file, built on the machine of its
// library with any compiler, and needs nothing of Cleave but this header.
//
// All functions take `context`, which is the filler's business, and return 0 or a code
// that `describe` puts into words. Only one thread is inside the table at a time; it
// need not be the same one.
#pragma once

#include <stdint.h>

extern "C" {

enum { cleaveTransportVersion = 2 };

/// A message under way. What is in it is the plugin's business.
struct CleaveRequest {
  uint64_t words[2];
};

struct CleaveTransport {
  /// The number of this process and of all; known after `open`.
  int process, processes;
  /// The largest tag a message may have.
  int highestTag;
  /// Name and version of the library.
  const char *library;
  void *context;

  /// Every process gives `bytes` bytes, and gets those of all in order. Waits for
  /// all; used at the start only.
  int (*allGather)(void *context, const void *mine, int bytes, void *all);
  /// Begin a message; the memory must stay as it is until `test` says done.
  int (*send)(void *context, const void *data, int bytes, int to, int tag,
              struct CleaveRequest *request);
  int (*receive)(void *context, void *data, int bytes, int from, int tag,
                 struct CleaveRequest *request);
  /// Does not wait. `done` becomes 1 when the message has been sent or received,
  /// `bytes` the length of one received, −1 if it did not fit.
  int (*test)(void *context, struct CleaveRequest *request, int *done, int *bytes);
  /// A text for a code, at most `capacity` bytes with its end.
  void (*describe)(void *context, int code, char *text, int capacity);
  /// Orderly end; waits for all. Not called after a failure.
  int (*close)(void *context);
  /// A connected socket between this process and `process`, one of which is the first,
  /// that is the caller's from now on. Null where the library has none to give.
  int (*connection)(void *context, int process, int *socket);
};

/// The one function of a plugin, `cleaveOpenTransport`: joins the processes that the
/// launcher has started. `version` is `cleaveTransportVersion`; another one is refused
/// with a code of its own, −1.
typedef int (*CleaveOpenTransport)(int version, struct CleaveTransport *transport);
}
