//go:build unix

package sandbox

import (
	"os"
	"os/exec"
)

// inherit passes a file to the child, and returns the file's descriptor in the child as text.
func inherit(cmd *exec.Cmd, f *os.File) (name string) {
	cmd.ExtraFiles = []*os.File{f}
	return "3" // the first descriptor after standard error
}
