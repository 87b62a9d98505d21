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
	"github.com/gatewright/gatewright/shared/disk"
)

// secretFile is a new file for a secret, which its owner alone may read, and which one process at a time is about to write.
type secretFile struct {
	file *os.File
	held *flock.Flock
}

// newSecretFile makes the file, for good and with room on its disk, before the secret is asked for, so that one is made for no file that can't be written.
// A file that is there is never written over: it may hold the only copy of another secret. One with nothing but the room is of a command that was
// killed before it had a secret, and is taken in place of a new one.
func newSecretFile(path string) (*secretFile, error) {
	out, err := newRoom(path)
	switch {
	case errors.Is(err, os.ErrExist):
		if left := roomLeft(path); left != nil {
			return left, nil
		}
		return nil, thereAlready(path)
	case err != nil:
		return nil, err
	}
	return out.taken(path)
}

// newRoom makes the file, with room, which any other command may take until this one has (taken). One that is there is an os.ErrExist.
func newRoom(path string) (*secretFile, error) {
	const private = 0o600
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, private) //nolint:gosec // G304: a file that the user names
	if err != nil {
		return nil, exit.With(exit.Usage, fmt.Errorf("--%s: %s cannot be made: %w", outFlag, path, disk.Cause(err)))
	}
	out := &secretFile{file: f, held: flock.New(path, flock.SetFlag(os.O_RDWR))}
	if _, err = f.WriteString(room()); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = disk.SyncFolder(filepath.Dir(path))
	}
	if err != nil {
		out.drop()
		return nil, fmt.Errorf("--%s: %s cannot be written, and nothing is made for it: %w", outFlag, path, disk.Cause(err))
	}
	return out, nil
}

// taken holds the file that this command has made, unless another has found it to be one that was left, and may have its secret in it by now.
func (f *secretFile) taken(path string) (*secretFile, error) {
	// A disk that knows no locks has nobody take the file: whoever would needs one.
	if ours, err := f.held.TryLock(); err == nil && !ours || !f.hasRoom(path) {
		f.close()
		return nil, thereAlready(path)
	}
	return f, nil
}

func thereAlready(path string) error {
	return exit.With(exit.Usage, fmt.Errorf("--%s: %s is there already, and is not written over", outFlag, path))
}

// secretRoom is the room that a file has on its disk before a secret is made for it, in bytes: more than any secret has.
const secretRoom = 4096

// room is what a file has in it before it has a secret.
func room() string { return strings.Repeat("\n", secretRoom) }

// roomLeft is the file of a command that was killed before it wrote a secret, nil for any other: a link, one of another user or that others may read, one
// that a command is about to write, and one with any other content.
func roomLeft(path string) *secretFile {
	if !isRoom(path) {
		return nil
	}
	held := flock.New(path, flock.SetFlag(os.O_RDWR)) // which makes none
	if ours, err := held.TryLock(); err != nil || !ours {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // G304: a file that the user names
	if err != nil {
		_ = held.Close()
		return nil
	}
	left := &secretFile{file: f, held: held}
	if !left.hasRoom(path) {
		left.close()
		return nil
	}
	return left
}

// isRoom reports whether a file is the user's own, for nobody else, and has room and no secret.
func isRoom(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || !disk.Ours(info) || disk.Exposed(info.Mode()) || info.Size() != secretRoom {
		return false
	}
	content, err := os.ReadFile(path) //nolint:gosec // G304: a file that the user names
	return err == nil && string(content) == room()
}

// hasRoom reports whether the file is the one that has its name, and nothing but room, now that nobody else can take it. The byte by which it is held is
// not read, which Windows shows nobody.
func (f *secretFile) hasRoom(path string) bool {
	content, err := io.ReadAll(io.NewSectionReader(f.file, 1, secretRoom))
	return err == nil && string(content) == room()[1:] && f.isAt(path)
}

// isAt reports whether the file is the one that has its name: another command may have removed it, and made one of its own.
func (f *secretFile) isAt(path string) bool {
	ours, err := f.file.Stat()
	there, missing := os.Lstat(path)
	locked, none := f.held.Stat()
	return err == nil && missing == nil && os.SameFile(ours, there) && disk.Ours(there) && (none != nil || os.SameFile(ours, locked))
}

func (f *secretFile) close() { _ = errors.Join(f.held.Close(), f.file.Close()) }

// write keeps the secret, on a line, for good. Its first byte comes last: Windows lets nobody write the byte by which the file is held, and it is held until
// it can't be taken for one without a secret.
func (f *secretFile) write(secret string) error {
	line := []byte(secret + "\n")
	_, err := f.file.WriteAt(line[1:], 1)
	err = errors.Join(err, f.held.Close())
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

// drop removes the file again, while nobody else can take it; Windows removes none that is open.
func (f *secretFile) drop() {
	err := os.Remove(f.file.Name())
	f.close()
	if err != nil {
		_ = os.Remove(f.file.Name())
	}
}

// make asks an operation that makes a secret. It is on stdout, this once, or in the file that is named, and masked on stdout.
func (s *session) make(ctx context.Context, v verb, arguments map[string]any, path string) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	return s.made(ctx, v, path, arguments, func() ([]byte, error) {
		answer, err := api.Named(ctx, v.operation, arguments)
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	})
}

// made writes the document that ask answers with, of a new secret. Where that cannot be written, the error says what was made, and what to do about it.
func (s *session) made(ctx context.Context, v verb, path string, arguments map[string]any, ask func() ([]byte, error)) error {
	if path == "" {
		document, err := ask()
		if err != nil {
			return err
		}
		if err := s.document(ctx, v, document); err != nil {
			return unseen(v, arguments, document, err)
		}
		return nil
	}
	file, err := newSecretFile(path)
	if err != nil {
		return err
	}
	document, err := ask()
	if err != nil {
		file.drop()
		return err
	}
	secret := secretOf(document, v.made)
	if secret == "" {
		file.drop()
		return fmt.Errorf("the answer has no secret, and %s is not made: look whether what it is for was", path)
	}
	if err := file.write(secret); err != nil {
		return unseen(v, arguments, document, err)
	}
	t, err := call.Operation(v.operation)
	if err != nil {
		return err
	}
	document, _ = t.Mask(document)
	if err := s.document(ctx, v, document); err != nil {
		return fmt.Errorf("%w; it is done, and the secret is in %s", err, path)
	}
	s.out.Say("the secret is in %s", path)
	return nil
}

// unseen is the error of a secret that was made, and that err has nobody see. It names what was made, and never the secret.
func unseen(v verb, arguments map[string]any, document []byte, err error) error {
	if v.lost == "" || secretOf(document, v.made) == "" {
		return err
	}
	words := []string{"{id}", textOf(document, v.made, "id"), "{tunnelId}", textOf(document, v.made, "tunnelId")}
	for name, value := range arguments {
		if text, is := value.(string); is {
			words = append(words, "{"+name+"}", text)
		}
	}
	return fmt.Errorf("%w; the secret is made, and nobody has seen it: %s", err, strings.NewReplacer(words...).Replace(v.lost))
}

// secretOf is the secret of a document, "" for none.
func secretOf(document json.RawMessage, made string) string { return textOf(document, made, made) }

// textOf is the text of a member of what was made, "" for none: of the first entry where a new key is in a list.
func textOf(document json.RawMessage, made, name string) string {
	var list []json.RawMessage
	if first := member(document, firstKeys); made == keyMember && json.Unmarshal(first, &list) == nil && len(list) > 0 {
		document = list[0]
	}
	var text string
	_ = json.Unmarshal(member(document, name), &text) // a text, or none
	return text
}

// withKey is the table of an answer with a new key, which is alone in its row: that of a new consumer is in a list, among what is not to be copied.
func withKey(document []byte) func() (output.Grid, error) {
	return func() (output.Grid, error) {
		g, err := output.TableOf(document)
		for i, row := range g.Rows {
			if row[0] == firstKeys {
				g.Rows[i] = []string{keyMember, secretOf(document, keyMember)}
			}
		}
		return g, err
	}
}

// A new consumer has its first key in a list.
const (
	firstKeys   = "apiKeys"
	keyMember   = "key"
	tokenMember = "token"
)
