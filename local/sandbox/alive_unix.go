//go:build unix

package sandbox

import (
	"os"
	"os/exec"
)

// inherit has the child inherit a file, which it finds under the name.
func inherit(cmd *exec.Cmd, f *os.File) (name string) {
	cmd.ExtraFiles = []*os.File{f}
	return "3" // the first after the standard ones
}
