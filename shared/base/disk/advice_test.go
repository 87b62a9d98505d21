package disk_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/gatewright/gatewright/shared/base/disk"
)

// TestAccessErrorsHaveAdvice checks that there is advice for the operating system's errors about access, limits and
// devices, even if they are wrapped several times. There is no advice for wrong content or a missing file.
func TestAccessErrorsHaveAdvice(t *testing.T) {
	for _, errno := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EACCES, syscall.EPERM,
		syscall.ENOSPC, syscall.EROFS, syscall.EIO,
	} {
		err := fmt.Errorf("open a table: %w",
			errors.Join(io.ErrUnexpectedEOF, &os.PathError{Op: "open", Path: "x", Err: errno}))
		if got := disk.AccessAdvice(err); got == "" {
			t.Errorf("AccessAdvice(%v) = %q, want what to do about it", err, got)
		}
	}
	for _, err := range []error{
		nil, io.ErrUnexpectedEOF, fs.ErrNotExist,
		&os.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}, errors.New("a checksum is wrong"),
	} {
		if got := disk.AccessAdvice(err); got != "" {
			t.Errorf("AccessAdvice(%v) = %q, want none", err, got)
		}
	}
}
