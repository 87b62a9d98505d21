package commands

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/client/profile"
	"github.com/gatewright/gatewright/shared/audit/proof"
	"github.com/gatewright/gatewright/shared/disk"
)

// exportOperation gives the audit log with its proof, page by page.
const exportOperation = "AuditLogsService_export"

// exportTries is how often an export is begun while records expire behind its back.
const exportTries = 3

func (a *App) logExportCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "export FILE", Short: "Write the audit log with its proof into a file", Args: cobra.ExactArgs(1),
		Long: "Write the audit log with its proof into a file, as JSON lines: all records that are chained, which a record is some seconds after its change.\n\n" +
			"`gatewright log verify` proves it anywhere, without the installation. Note the public key and the end that this prints elsewhere: they\n" +
			"tell a later log that was put back, or signed anew. A log that is broken is written all the same, and ends this with 6.",
		Example: "  gatewright log export audit.jsonl",
	}
	a.askingFor(followTime, c, func(ctx context.Context, s *session, words []string) error {
		if _, err := os.Lstat(words[0]); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return exit.With(exit.Usage, fmt.Errorf("%s is there already, or cannot be: name a file that is to be made", words[0]))
		}
		api, err := s.api()
		if err != nil {
			return err
		}
		for try := 1; ; try++ {
			h, err := export(ctx, api, words[0])
			if exit.Of(err) == exit.Conflict && try < exportTries {
				s.out.Say("records have expired meanwhile; it begins again")
				continue
			}
			if err != nil {
				return err
			}
			return s.exported(ctx, words[0], h)
		}
	})
	return c
}

// export writes the file, which has its name once it is whole and on disk.
func export(ctx context.Context, api *call.API, path string) (h proof.Header, err error) {
	links, err := newSpool(filepath.Dir(path))
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, links.close()) }()
	at := call.Cursor{}
	for of := map[string]any{}; ; {
		answer, err := api.Named(ctx, exportOperation, of)
		if err != nil {
			return h, err
		}
		var page struct {
			Links  []proof.Link
			Header *proof.Header
			Next   string
		}
		if err := call.Read(answer.Body, &page); err != nil {
			return h, fmt.Errorf("read the audit log: %w", err)
		}
		for _, l := range page.Links {
			if err := links.add(l); err != nil {
				return h, err
			}
		}
		if page.Header != nil {
			h = *page.Header
			break
		}
		if page.Next == "" {
			return h, errors.New("read the audit log: the last page has no header")
		}
		if err := at.Next(0, page.Next); err != nil { // which stands on disk, and not in memory
			return h, fmt.Errorf("read the audit log: %w", err)
		}
		of["after"] = page.Next
	}
	if _, err := proof.ParsePublicKey(h.PublicKey); err != nil {
		return h, fmt.Errorf("read the audit log: %w", err) // which no file of it could be proved by
	}
	return h, links.write(path, h)
}

// spool has the links of an export as they come: in a file, since a log may be longer than memory.
type spool struct {
	file *os.File
	to   *bufio.Writer
	// at is where each link begins, by its number, and end is where the next will.
	at  map[int64]int64
	end int64
}

func newSpool(folder string) (*spool, error) {
	f, err := os.CreateTemp(folder, ".gatewright-export-*") // which its owner alone may read
	if err != nil {
		return nil, exit.With(exit.Usage, fmt.Errorf("nothing can be written in %s: %w", folder, disk.Cause(err)))
	}
	return &spool{file: f, to: bufio.NewWriter(f), at: map[int64]int64{}}, nil
}

func (s *spool) close() error {
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}

func (s *spool) add(l proof.Link) error {
	text, err := json.Marshal(l)
	if err == nil {
		s.at[l.Seq] = s.end
		s.end += int64(len(text))
		_, err = s.to.Write(text)
	}
	if err != nil {
		return fmt.Errorf("keep an audit record: %w", disk.Cause(err))
	}
	return nil
}

// link reads one again.
func (s *spool) link(seq int64) (l proof.Link, err error) {
	at, ok := s.at[seq]
	if !ok {
		return l, exit.With(exit.Invalid, fmt.Errorf("the audit log is broken: record %d did not come", seq))
	}
	if err := json.NewDecoder(io.NewSectionReader(s.file, at, s.end-at)).Decode(&l); err != nil {
		return l, fmt.Errorf("read an audit record again: %w", err)
	}
	return l, nil
}

// write makes the file of all.
func (s *spool) write(path string, h proof.Header) error {
	if err := s.to.Flush(); err != nil {
		return fmt.Errorf("keep an audit record: %w", disk.Cause(err))
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".gatewright-export-*")
	if err != nil {
		return fmt.Errorf("write the audit log: %w", disk.Cause(err))
	}
	to := bufio.NewWriter(f)
	err = proof.WriteFile(to, h, s.link)
	if err == nil {
		err = errors.Join(to.Flush(), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err == nil {
		err = disk.SyncFolder(filepath.Dir(path))
	} else {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	if err != nil {
		return fmt.Errorf("write the audit log: %w", err)
	}
	return nil
}

// exported tells of an export, and looks whether it holds.
func (s *session) exported(ctx context.Context, path string, h proof.Header) error {
	key, err := proof.ParsePublicKey(h.PublicKey)
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	return s.verified(ctx, path, key, h.Account, proof.Commitment{})
}

func (a *App) logVerifyCommand() *cobra.Command {
	var publicKey, account, noted string
	c := a.local(&cobra.Command{
		Use: "verify FILE", Short: "Prove that nothing of an exported audit log was removed, altered, inserted or reordered, and ask nobody", Args: cobra.ExactArgs(1),
		Long: "Prove that nothing of an exported audit log was removed, altered, inserted or reordered, and ask nobody. FILE is of `gatewright log export`,\n" +
			"and - is stdin. What is wrong is told at its record, and ends this with 6.\n\n" +
			"The public key is the installation's, as an export has printed it: take it from a place that who wrote the file cannot write. --noted is the\n" +
			"end that an earlier export has printed: a log that was put back to before it no longer has it.",
		Example: "  gatewright log verify audit.jsonl --account acme --public-key 6PU-6V0r_jEeb6FwfzuFdV4F_GU0FMMzdLz7TSqb5as",
	}, func(ctx context.Context, s *session, words []string) error {
		if account == "" {
			account = a.Getenv(profile.VarAccount)
		}
		if publicKey == "" || account == "" {
			return exit.With(exit.Usage, errors.New("it needs --public-key, and --account with the name or the id of the account: a file proves nothing about another's"))
		}
		key, err := proof.ParsePublicKey(publicKey)
		if err != nil {
			return exit.With(exit.Usage, fmt.Errorf("--public-key: %w", err))
		}
		var before proof.Commitment
		if noted != "" {
			if before, err = proof.ParseCommitment(noted); err != nil {
				return exit.With(exit.Usage, fmt.Errorf("--noted: %w", err))
			}
		}
		return s.verified(ctx, words[0], key, account, before)
	})
	c.Flags().StringVar(&publicKey, "public-key", "", "the installation's public `KEY`, as an export has printed it")
	c.Flags().StringVar(&account, "account", "", "the account that the log has to be of, by name or id ("+profile.VarAccount+")")
	c.Flags().StringVar(&noted, "noted", "", "an end that was printed before, `NUMBER:HASH`, which the log has to have still")
	return c
}

// verified proves a file, and writes what it proves.
func (s *session) verified(ctx context.Context, path string, key proof.PublicKey, account string, noted proof.Commitment) error {
	in := s.app.stdin(ctx)
	if path != "-" {
		f, err := os.Open(path) //nolint:gosec // G304: the file that was named
		if err != nil {
			return exit.With(exit.Usage, fmt.Errorf("%s cannot be read: %w", path, disk.Cause(err)))
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	r, err := proof.VerifyFile(in, key, account, noted)
	if err != nil {
		return exit.With(exit.Invalid, err)
	}
	if r.Break != "" {
		return exit.With(exit.Invalid, fmt.Errorf("the audit log is broken: %s", r.Break))
	}
	end := ""
	if r.Records() > 0 {
		end = r.End.String()
	}
	document, err := json.Marshal(proven{path, r.Records(), r.First, r.Last, end, key.String()})
	if err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	if err := s.out.Document(ctx, document, func() (output.Grid, error) { return output.TableOf(document) }); err != nil {
		return err
	}
	s.out.Say("they are as they were signed; note the end and the public key elsewhere")
	return nil
}

// proven is what a file proves.
type proven struct {
	File      string `json:"file"`
	Records   int64  `json:"records"`
	First     int64  `json:"first"`
	Last      int64  `json:"last"`
	End       string `json:"end"`
	PublicKey string `json:"publicKey"`
}
