package disk_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/gatewright/gatewright/shared/disk"
)

// TestRefusalsOfTheSystemAreNoDamage, however often they are wrapped. A wrong content or a missing file is no refusal.
func TestRefusalsOfTheSystemAreNoDamage(t *testing.T) {
	for _, number := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EACCES, syscall.EPERM, syscall.ENOSPC, syscall.EROFS, syscall.EIO} {
		err := fmt.Errorf("open a table: %w", errors.Join(io.ErrUnexpectedEOF, &os.PathError{Op: "open", Path: "x", Err: number}))
		if got := disk.Refusal(err); got == "" {
			t.Errorf("Refusal(%v) = %q, want what to do about it", err, got)
		}
	}
	for _, err := range []error{nil, io.ErrUnexpectedEOF, fs.ErrNotExist, &os.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}, errors.New("a checksum is wrong")} {
		if got := disk.Refusal(err); got != "" {
			t.Errorf("Refusal(%v) = %q, want none", err, got)
		}
	}
}
