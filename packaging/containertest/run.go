package containertest

import (
	"os"
	"testing"
)

// run runs the tests of a package, calls the functions in after and ends the process.
func run(m *testing.M, after []func()) {
	code := m.Run()
	for _, f := range after {
		f()
	}
	os.Exit(code)
}
