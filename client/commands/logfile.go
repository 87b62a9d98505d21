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
	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/core/audit/proof"
)

// exportOperation is the operation that returns the audit log with its proof, in pages.
const exportOperation = "AuditLogsService_export"

// maxExportAttempts is the maximum number of attempts. An export must start again if records have expired during the
// export.
const maxExportAttempts = 3

func (a *App) logExportCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "export FILE", Short: "Write the audit log with its proof into a file", Args: cobra.ExactArgs(1),
		Long: "Write the audit log with its proof into a file, as JSON lines: all records that are chained, which a record " +
			"is some seconds after its change.\n\n" +
			"`gatewright log verify` proves it anywhere, without the installation. Note the public key and the end that this " +
			"prints elsewhere: they\ntell a later log that was put back, or signed anew. A log that is broken is written all " +
			"the same, and ends " +
			"this with 6.",
		Example: "  gatewright log export audit.jsonl",
	}
	a.remoteCommandWithTimeout(followTimeout, c, func(ctx context.Context, s *session, args []string) error {
		if _, err := os.Lstat(args[0]); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return exit.WithCode(exit.Usage, fmt.Errorf("%s is there already, or cannot be: name a file that is to be made",
				args[0]))
		}
		api, err := s.api()
		if err != nil {
			return err
		}
		for attempt := 1; ; attempt++ {
			h, err := exportLog(ctx, api, args[0])
			if exit.CodeOf(err) == exit.Conflict && attempt < maxExportAttempts {
				s.out.Infof("records have expired meanwhile; it begins again")
				continue
			}
			if err != nil {
				return err
			}
			return s.reportExport(ctx, args[0], h)
		}
	})
	return c
}

// exportLog writes the audit log to a new file at path. The file appears at path when it is complete and synced.
func exportLog(ctx context.Context, api *call.API, path string) (h proof.Header, err error) {
	links, err := newSpool(filepath.Dir(path))
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, links.close()) }()
	tracker := call.PageTracker{}
	for query := map[string]any{}; ; {
		resp, err := api.Call(ctx, exportOperation, query)
		if err != nil {
			return h, err
		}
		var page struct {
			Links  []proof.Link
			Header *proof.Header
			Next   string
		}
		if err := call.Decode(resp.Body, &page); err != nil {
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
		if err := tracker.AddPage(0, page.Next); err != nil { // size 0: the page is on disk and takes no memory
			return h, fmt.Errorf("read the audit log: %w", err)
		}
		query["after"] = page.Next
	}
	if _, err := proof.ParsePublicKey(h.PublicKey); err != nil {
		return h, fmt.Errorf("read the audit log: %w", err) // no proof with this key could be verified
	}
	return h, links.write(path, h)
}

// spool stores the links of an export in a temporary file, because a log can be larger than memory.
type spool struct {
	file *os.File
	w    *bufio.Writer
	// offsets has the offset of each link by its number. end is the offset at which the next link is written.
	offsets map[int64]int64
	end     int64
}

func newSpool(folder string) (*spool, error) {
	f, err := os.CreateTemp(folder, ".gatewright-export-*") // only the owner can read this file
	if err != nil {
		return nil, exit.WithCode(exit.Usage, fmt.Errorf("nothing can be written in %s: %w", folder, disk.Cause(err)))
	}
	return &spool{file: f, w: bufio.NewWriter(f), offsets: map[int64]int64{}}, nil
}

func (s *spool) close() error {
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}

func (s *spool) add(l proof.Link) error {
	text, err := json.Marshal(l)
	if err == nil {
		s.offsets[l.Seq] = s.end
		s.end += int64(len(text))
		_, err = s.w.Write(text)
	}
	if err != nil {
		return fmt.Errorf("keep an audit record: %w", disk.Cause(err))
	}
	return nil
}

// link reads a stored link.
func (s *spool) link(seq int64) (l proof.Link, err error) {
	offset, ok := s.offsets[seq]
	if !ok {
		return l, exit.WithCode(exit.Invalid, fmt.Errorf("the audit log is broken: record %d did not come", seq))
	}
	if err := json.NewDecoder(io.NewSectionReader(s.file, offset, s.end-offset)).Decode(&l); err != nil {
		return l, fmt.Errorf("read an audit record again: %w", err)
	}
	return l, nil
}

// write writes the complete export to a new file at path.
func (s *spool) write(path string, h proof.Header) error {
	if err := s.w.Flush(); err != nil {
		return fmt.Errorf("keep an audit record: %w", disk.Cause(err))
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".gatewright-export-*")
	if err != nil {
		return fmt.Errorf("write the audit log: %w", disk.Cause(err))
	}
	w := bufio.NewWriter(f)
	err = proof.WriteFile(w, h, s.link)
	if err == nil {
		err = errors.Join(w.Flush(), f.Sync())
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

// reportExport verifies an export and reports the result.
func (s *session) reportExport(ctx context.Context, path string, h proof.Header) error {
	key, err := proof.ParsePublicKey(h.PublicKey)
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	return s.verify(ctx, path, key, h.Account, proof.Commitment{})
}

func (a *App) logVerifyCommand() *cobra.Command {
	var publicKey, account, noted string
	c := a.localCommand(&cobra.Command{
		Use: "verify FILE", Short: "Prove that nothing of an exported audit log was removed, altered, inserted or " +
			"reordered, and ask nobody", Args: cobra.ExactArgs(1),
		Long: "Prove that nothing of an exported audit log was removed, altered, inserted or reordered, and ask nobody. " +
			"FILE is of `gatewright log export`,\n" +
			"and - is stdin. What is wrong is told at its record, and ends this with 6.\n\n" +
			"The public key is the installation's, as an export has printed it: take it from a place that who wrote the file " +
			"cannot write. --noted is the\n" +
			"end that an earlier export has printed: a log that was put back to before it no longer has it.",
		Example: "  gatewright log verify audit.jsonl --account acme --public-key " +
			"6PU-6V0r_jEeb6FwfzuFdV4F_GU0FMMzdLz7TSqb5as",
	}, func(ctx context.Context, s *session, args []string) error {
		if account == "" {
			account = a.Getenv(profile.VarAccount)
		}
		if publicKey == "" || account == "" {
			return exit.WithCode(exit.Usage, errors.New("it needs --public-key, and --account with the name or the id of the "+
				"account: a file proves nothing about another's"))
		}
		key, err := proof.ParsePublicKey(publicKey)
		if err != nil {
			return exit.WithCode(exit.Usage, fmt.Errorf("--public-key: %w", err))
		}
		var expected proof.Commitment
		if noted != "" {
			if expected, err = proof.ParseCommitment(noted); err != nil {
				return exit.WithCode(exit.Usage, fmt.Errorf("--noted: %w", err))
			}
		}
		return s.verify(ctx, args[0], key, account, expected)
	})
	c.Flags().StringVar(&publicKey, "public-key", "", "the installation's public `KEY`, as an export has printed it")
	c.Flags().StringVar(&account, "account", "", "the account that the log has to be of, by name or id ("+
		profile.VarAccount+")")
	c.Flags().StringVar(&noted, "noted", "",
		"an end that was printed before, `NUMBER:HASH`, which the log has to have still")
	return c
}

// verify verifies a file and writes the result.
func (s *session) verify(
	ctx context.Context, path string, key proof.PublicKey, account string, expected proof.Commitment,
) error {
	in := s.app.stdin(ctx)
	if path != "-" {
		f, err := os.Open(path) //nolint:gosec // G304: a file that the user names
		if err != nil {
			return exit.WithCode(exit.Usage, fmt.Errorf("%s cannot be read: %w", path, disk.Cause(err)))
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	r, err := proof.VerifyFile(in, key, account, expected)
	if err != nil {
		return exit.WithCode(exit.Invalid, err)
	}
	if r.Break != "" {
		return exit.WithCode(exit.Invalid, fmt.Errorf("the audit log is broken: %s", r.Break))
	}
	end := ""
	if r.Records() > 0 {
		end = r.End.String()
	}
	document, err := json.Marshal(verification{path, r.Records(), r.First, r.Last, end, key.String()})
	if err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	if err := s.out.Document(ctx, document, func() (output.Grid, error) { return output.NewTable(document) }); err != nil {
		return err
	}
	s.out.Infof("they are as they were signed; note the end and the public key elsewhere")
	return nil
}

// verification is the result of a verification. First and Last are the numbers of the oldest and the newest remaining
// record, 0 if there are none. End identifies the newest record, and is "" if there are none.
type verification struct {
	File      string `json:"file"`
	Records   int64  `json:"records"`
	First     int64  `json:"first"`
	Last      int64  `json:"last"`
	End       string `json:"end"`
	PublicKey string `json:"publicKey"`
}
