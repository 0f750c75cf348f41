package v8

// #cgo CXXFLAGS: -std=c++20 -fno-rtti -fno-exceptions -fPIC -O2 -Wall -Wextra
// #cgo CFLAGS: -O2 -Wall -Wextra
import "C"

// This package has V8's library and its linker flags, and no Go code.
import _ "github.com/tommie/v8go/deps/linux_amd64"
