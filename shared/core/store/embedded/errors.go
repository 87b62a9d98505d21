package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/base/disk"
)

// openError returns an error that explains why the files cannot be
// opened. The disk may be the cause, because a start also writes.
func (b *Backend) openError(err error) error {
	err = oneLine(err)
	if vfs.IsNoSpaceError(err) || errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("the store in %s cannot be written to: %w: nothing of it is lost; see that its disk has room and "+
			"is writable, and start again", b.o.Dir, err)
	}
	if refusal := accessError(fmt.Sprintf("the store in %s cannot be opened", b.o.Dir), err); refusal != nil {
		return refusal
	}
	return fmt.Errorf("the store in %s cannot be opened: %w: a file of it is damaged or missing; restore the last "+
		"backup into another folder, and keep this one", b.o.Dir, err)
}

// readError returns an error that explains why a file cannot be read while the store is open.
func readError(err error) error {
	if refusal := accessError("the store cannot be read", oneLine(err)); refusal != nil {
		return refusal
	}
	return fmt.Errorf("the store cannot be read: %w: if it goes on, a file is damaged; restore the last backup",
		oneLine(err))
}

// accessError returns an error if the system refuses access to a file, for example because
// too many files are open. It returns nil if err may be damage. operation describes the
// failed operation. For an access error the operator does not have to restore a backup.
func accessError(operation string, err error) error {
	if advice := disk.AccessAdvice(err); advice != "" {
		return fmt.Errorf("%s: %w: its files may be whole; %s", operation, err, advice)
	}
	return nil
}

// resourceExhausted reports whether the system refuses access to a file because the process or the system has reached a
// limit.
func resourceExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// singleLineError wraps an error of Pebble, whose text may have several lines, and returns its text in one line.
type singleLineError struct{ error }

// oneLine returns an error whose text is one line, without the names of Pebble's types.
func oneLine(err error) error { return singleLineError{err} }

func (e singleLineError) Error() string {
	var lines []string
	for line := range strings.Lines(e.error.Error()) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "<") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

func (e singleLineError) Unwrap() error { return e.error }
