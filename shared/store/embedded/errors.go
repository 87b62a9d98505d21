package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/disk"
)

// notOpened explains why the files cannot be opened. A start writes too, so the disk may be the cause.
func (b *Backend) notOpened(err error) error {
	err = oneLine(err)
	if vfs.IsNoSpaceError(err) || errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("the store in %s cannot be written to: %w: nothing of it is lost; see that its disk has room and is writable, and start again", b.o.Dir, err)
	}
	if refusal := refused(fmt.Sprintf("the store in %s cannot be opened", b.o.Dir), err); refusal != nil {
		return refusal
	}
	return fmt.Errorf("the store in %s cannot be opened: %w: a file of it is damaged or missing; restore the last backup into another folder, and keep this one", b.o.Dir, err)
}

// damaged explains a file that cannot be read while the store is open.
func damaged(err error) error {
	if refusal := refused("the store cannot be read", oneLine(err)); refusal != nil {
		return refusal
	}
	return fmt.Errorf("the store cannot be read: %w: if it goes on, a file is damaged; restore the last backup", oneLine(err))
}

// refused returns an error if the system refuses access to a file, for example because too many files are open. It returns nil if
// err may be damage. doing says what could not be done. The operator does not have to restore a backup for such an error.
func refused(doing string, err error) error {
	if todo := disk.Refusal(err); todo != "" {
		return fmt.Errorf("%s: %w: its files may be whole; %s", doing, err, todo)
	}
	return nil
}

// outOf reports whether the system refuses access to a file because the process or the system has reached a limit.
func outOf(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// lineError is an error of Pebble. Some of these errors have texts of several lines.
type lineError struct{ error }

// oneLine returns an error whose text is one line, without Pebble's names of its own types.
func oneLine(err error) error { return lineError{err} }

func (e lineError) Error() string {
	var lines []string
	for line := range strings.Lines(e.error.Error()) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "<") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

func (e lineError) Unwrap() error { return e.error }
