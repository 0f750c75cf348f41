//go:build v8headers

package v8

// The import keeps the module with V8's headers in go.mod, for TestABI.
import _ "github.com/tommie/v8go/deps/include"
