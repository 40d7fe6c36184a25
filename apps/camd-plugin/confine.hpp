// Takes away from this process what a plug-in has not been granted. Nothing of it can be had back.
//
//   always       no new privileges, no core of another process's memory, no child processes, a bound on memory
//   Landlock     no file is written, made, renamed or removed but below what is granted (where the kernel has it)
//                With `gpu` the driver's devices, and the names of this process's threads, are written too
//   libseccomp   no system call but those that computing and reading take; others fail as unknown. Without `network`
//                sockets are refused
//
// Threads: the main one, before any other.
#pragma once

#include <string>

#include "pipeline/plugin_process/blob.hpp"

namespace camd::worker {

// Returns what is in force, in words: "no network, no files (Landlock 7, seccomp)". Throws Error(kPlugin): what is
// granted does not exist, or the kernel refuses.
std::string confine(const pipeline::wire::WorkerOrder& order);

}  // namespace camd::worker
