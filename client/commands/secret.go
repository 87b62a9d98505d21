package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/shared/disk"
)

// secretFile is a new file for a secret, which its owner alone may read.
type secretFile struct{ file *os.File }

// newSecretFile makes the file, for good and with room on its disk, before the secret is asked for, so that one is made for no file that can't be written.
// A file that is there is never written over: it may hold the only copy of another secret.
func newSecretFile(path string) (*secretFile, error) {
	const private = 0o600
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, private) //nolint:gosec // G304: a file that the user names
	switch {
	case errors.Is(err, os.ErrExist):
		return nil, exit.With(exit.Usage, fmt.Errorf("--%s: %s is there already, and is not written over", outFlag, path))
	case err != nil:
		return nil, exit.With(exit.Usage, fmt.Errorf("--%s: %s cannot be made: %w", outFlag, path, disk.Cause(err)))
	}
	out := &secretFile{f}
	if _, err = f.WriteString(strings.Repeat("\n", secretRoom)); err == nil {
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

// secretRoom is the room that a file has on its disk before a secret is made for it, in bytes: more than any secret has.
const secretRoom = 4096

// write keeps the secret, on a line, for good.
func (f *secretFile) write(secret string) error {
	line := secret + "\n"
	_, err := f.file.WriteAt([]byte(line), 0)
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

// drop removes the file again.
func (f *secretFile) drop() {
	_ = f.file.Close()
	_ = os.Remove(f.file.Name())
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
		if err := s.document(ctx, v, document); err != nil {
			return err
		}
		return fmt.Errorf("the answer has no secret, and %s is not made", path)
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

// withKey is the table of an answer with a new key, which is whole: that of a new consumer is in a list, whose cell would be cut.
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
