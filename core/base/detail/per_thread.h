#pragma once

#include <utility>

namespace wick {

/// This thread's own T, made when first asked for and gone with the thread. Destructors of static
/// objects may ask too, after the main thread's is gone: they get another one, which stays.
template <class T>
T& per_thread() {
  static thread_local T* object = nullptr;
  if (object == nullptr) {
    struct Owner {
      ~Owner() { delete std::exchange(object, nullptr); }
    };
    object = new T;
    static thread_local const Owner owner;
    static_cast<void>(&owner);
  }
  return *object;
}

}  // namespace wick
