// Names a thread so that top, gdb and the sanitizers' reports say what it is.
#pragma once

#include <pthread.h>

#include <string>

namespace camd::base {

// [any] Names the calling thread; Linux keeps 15 characters.
inline void name_this_thread(const std::string& name) {
  (void)pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

}  // namespace camd::base
