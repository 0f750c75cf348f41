package v8

// #cgo CXXFLAGS: -std=c++20 -fno-rtti -fno-exceptions -fPIC -O2 -Wall -Wextra
// #cgo CFLAGS: -O2 -Wall -Wextra
import "C"

// Brings the library and its linker flags; it has no code of its own.
import _ "github.com/tommie/v8go/deps/linux_amd64"
