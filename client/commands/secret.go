package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/shared/base/disk"
)

// secretFile is a new file for a secret. Only its owner can read it, and only one process at a time can write it.
type secretFile struct {
	file *os.File
	lock *flock.Flock
}

// newSecretFile creates the file before the secret is created. It syncs the file and reserves its space on disk, so
// that no secret is created for a file that cannot be written.
//
// It never overwrites a file that may hold the only copy of another secret. If a command was killed before it had a
// secret, it leaves a file that holds only the reserved space. newSecretFile uses such a leftover file again.
func newSecretFile(path string) (*secretFile, error) {
	file, err := reserveSecretFile(path)
	switch {
	case errors.Is(err, os.ErrExist):
		if leftover := openLeftover(path); leftover != nil {
			return leftover, nil
		}
		return nil, errFileExists(path)
	case err != nil:
		return nil, err
	}
	return file.claim(path)
}

// reserveSecretFile creates the file with reserved space. Until claim locks the file, another command can use it as a
// leftover file. If a file exists at path, the error wraps os.ErrExist.
func reserveSecretFile(path string) (*secretFile, error) {
	const mode = 0o600
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode) //nolint:gosec // G304: a file that the user names
	if err != nil {
		return nil, exit.WithCode(exit.Usage, fmt.Errorf("--%s: %s cannot be made: %w", outFlag, path, disk.Cause(err)))
	}
	reserved := &secretFile{file: f, lock: flock.New(path, flock.SetFlag(os.O_RDWR))}
	if _, err = f.WriteString(reservedContent()); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = disk.SyncFolder(filepath.Dir(path))
	}
	if err != nil {
		reserved.remove()
		return nil, fmt.Errorf("--%s: %s cannot be written, and nothing is made for it: %w", outFlag, path, disk.Cause(err))
	}
	return reserved, nil
}

// claim locks the file that this command has created. It returns an error if another command has already used it as a
// leftover file, because that command may have written its secret to the file.
func (f *secretFile) claim(path string) (*secretFile, error) {
	// If the file system has no locks, other commands cannot take the file: openLeftover requires a lock.
	if locked, err := f.lock.TryLock(); err == nil && !locked || !f.isUnwritten(path) {
		f.close()
		return nil, errFileExists(path)
	}
	return f, nil
}

func errFileExists(path string) error {
	return exit.WithCode(exit.Usage, fmt.Errorf("--%s: %s is there already, and is not written over", outFlag, path))
}

// reservedSize is the size of the reserved space in bytes: more than any secret has.
const reservedSize = 4096

// reservedContent returns the content of a file before it has a secret.
func reservedContent() string { return strings.Repeat("\n", reservedSize) }

// openLeftover returns the file of a command that was killed before it wrote a secret. It returns nil for any other
// file: a link, a file that another user owns or can read, a file that another command has locked, and a file
// with other content.
func openLeftover(path string) *secretFile {
	if !isReserved(path) {
		return nil
	}
	lock := flock.New(path, flock.SetFlag(os.O_RDWR)) // without os.O_CREATE, so that flock creates no file
	if locked, err := lock.TryLock(); err != nil || !locked {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // G304: a file that the user names
	if err != nil {
		_ = lock.Close()
		return nil
	}
	leftover := &secretFile{file: f, lock: lock}
	if !leftover.isUnwritten(path) {
		leftover.close()
		return nil
	}
	return leftover
}

// isReserved reports whether a file belongs to the user, is not readable by others, and holds only the reserved space.
func isReserved(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || !disk.OwnedByUser(info) || disk.Exposed(info.Mode()) ||
		info.Size() != reservedSize {
		return false
	}
	content, err := os.ReadFile(path) //nolint:gosec // G304: a file that the user names
	return err == nil && string(content) == reservedContent()
}

// isUnwritten reports whether the locked file is still the file at path, and holds only the reserved space. It does not
// read the first byte, which is locked: Windows refuses to read it.
func (f *secretFile) isUnwritten(path string) bool {
	content, err := io.ReadAll(io.NewSectionReader(f.file, 1, reservedSize))
	return err == nil && string(content) == reservedContent()[1:] && f.isAt(path)
}

// isAt reports whether the file at path is still this file, and belongs to the user. Another command may have removed
// the file and created a new one. f.lock has opened the path separately, so its file is compared too.
func (f *secretFile) isAt(path string) bool {
	opened, err := f.file.Stat()
	current, currentErr := os.Lstat(path)
	locked, lockErr := f.lock.Stat()
	return err == nil && currentErr == nil && os.SameFile(opened, current) && disk.OwnedByUser(current) &&
		(lockErr != nil || os.SameFile(opened, locked))
}

func (f *secretFile) close() { _ = errors.Join(f.lock.Close(), f.file.Close()) }

// write writes the secret as a line, and syncs the file. It writes the first byte last, after it has released the lock:
// Windows refuses to write a locked byte. When the lock is released, the file already has other content, so no command
// uses it as a leftover file.
func (f *secretFile) write(secret string) error {
	line := []byte(secret + "\n")
	_, err := f.file.WriteAt(line[1:], 1)
	err = errors.Join(err, f.lock.Close())
	if err == nil {
		_, err = f.file.WriteAt(line[:1], 0)
	}
	if err == nil {
		err = f.file.Truncate(int64(len(line)))
	}
	if err == nil {
		err = f.file.Sync()
	}
	if err = errors.Join(err, f.file.Close()); err != nil {
		return fmt.Errorf("%s cannot be written: %w", f.file.Name(), disk.Cause(err))
	}
	return nil
}

// remove removes the file before it releases the lock, if this command has it. Windows does not remove open files: if
// the removal fails, remove closes the file and tries again.
func (f *secretFile) remove() {
	err := os.Remove(f.file.Name())
	f.close()
	if err != nil {
		_ = os.Remove(f.file.Name())
	}
}

// createSecret calls an operation that creates a secret. If path is "", it writes the response with the secret to
// stdout. Otherwise it writes the secret to the file at path, and the response with a masked secret to stdout.
func (s *session) createSecret(ctx context.Context, v verb, arguments map[string]any, path string) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	return s.writeSecret(ctx, v, path, arguments, func() ([]byte, error) {
		resp, err := api.Call(ctx, v.operation, arguments)
		if err != nil {
			return nil, err
		}
		return resp.Body, nil
	})
}

// writeSecret calls request, and writes the returned document, which has a new secret. If the secret cannot be written,
// the error says what was created and what to do.
func (s *session) writeSecret(
	ctx context.Context, v verb, path string, arguments map[string]any, request func() ([]byte, error),
) error {
	if path == "" {
		document, err := request()
		if err != nil {
			return err
		}
		if err := s.writeDocument(ctx, v, document); err != nil {
			return lostSecretError(v, arguments, document, err)
		}
		return nil
	}
	file, err := newSecretFile(path)
	if err != nil {
		return err
	}
	document, err := request()
	if err != nil {
		file.remove()
		return err
	}
	secret := secretIn(document, v.secretMember)
	if secret == "" {
		file.remove()
		return fmt.Errorf("the answer has no secret, and %s is not made: look whether what it is for was", path)
	}
	if err := file.write(secret); err != nil {
		return lostSecretError(v, arguments, document, err)
	}
	t, err := call.Operation(v.operation)
	if err != nil {
		return err
	}
	document, _ = t.Mask(document)
	if err := s.writeDocument(ctx, v, document); err != nil {
		return fmt.Errorf("%w; it is done, and the secret is in %s", err, path)
	}
	s.out.Infof("the secret is in %s", path)
	return nil
}

// lostSecretError returns the error for a secret that was created, but could not be written because of err. The error
// names the created object, and does not contain the secret. If v has no lostHint or document has no secret,
// lostSecretError returns err.
func lostSecretError(v verb, arguments map[string]any, document []byte, err error) error {
	if v.lostHint == "" || secretIn(document, v.secretMember) == "" {
		return err
	}
	replacements := []string{
		"{id}", memberText(document, v.secretMember, "id"), "{tunnelId}",
		memberText(document, v.secretMember, "tunnelId"),
	}
	for name, value := range arguments {
		if text, ok := value.(string); ok {
			replacements = append(replacements, "{"+name+"}", text)
		}
	}
	return fmt.Errorf("%w; the secret is made, and nobody has seen it: %s", err,
		strings.NewReplacer(replacements...).Replace(v.lostHint))
}

// secretIn returns the secret in a document, "" for none.
func secretIn(document json.RawMessage, secretMember string) string {
	return memberText(document, secretMember, secretMember)
}

// memberText returns the text of the member of document with this name, or "" if the member is missing or not a string.
// If secretMember is keyMember and document has the list apiKeys, memberText reads the member of the list's first entry
// instead.
func memberText(document json.RawMessage, secretMember, name string) string {
	var list []json.RawMessage
	if keys := memberValue(document, apiKeysMember); secretMember == keyMember && json.Unmarshal(keys, &list) == nil &&
		len(list) > 0 {
		document = list[0]
	}
	var text string
	// After an error, text is "": the member is missing or not a string.
	_ = json.Unmarshal(memberValue(document, name), &text)
	return text
}

// keyTable returns a function that returns the table of a response with a new key. In the response for a new consumer,
// the key is in a list: the function replaces the row of the list with a row for the key.
func keyTable(document []byte) func() (output.Grid, error) {
	return func() (output.Grid, error) {
		g, err := output.NewTable(document)
		for i, row := range g.Rows {
			if row[0] == apiKeysMember {
				g.Rows[i] = []string{keyMember, secretIn(document, keyMember)}
			}
		}
		return g, err
	}
}

// These members of responses have a new secret. In the response for a new consumer, the key is in the list apiKeys.
const (
	apiKeysMember = "apiKeys"
	keyMember     = "key"
	tokenMember   = "token"
)
