package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/files"
	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/base/lazy"
)

// startEntry is the first part of a line of a doneFile. It is written before the request for the key.
type startEntry struct {
	Line int    `json:"line"`
	Hash string `json:"mark"`
	// StartedAt is the time of the first request.
	StartedAt time.Time `json:"begun"`
}

// keyEntry is the second part of a line of a doneFile. It is written when the key exists.
type keyEntry struct {
	ConsumerName string `json:"name"`
	ID           string `json:"id"`
	Key          string `json:"key"`
}

// doneFile is the file with the keys that were created. It has one line of JSON for each key. If the process is killed
// while it waits for a key, the last line is incomplete: it has only the startEntry, which identifies the line of the
// input file.
type doneFile struct {
	file *os.File
	// hashes has the hash of each line of the input file that earlier runs have recorded, by the line's number in the
	// input file. It includes the incomplete line of an earlier run.
	hashes map[int]string
	// pending is the startEntry of the incomplete line, nil if all lines are complete. pendingOffset is the offset of
	// the incomplete line in bytes.
	pending       *startEntry
	pendingOffset int64
	// resumed says that an earlier run began the incomplete line.
	resumed bool
}

// openDoneFile opens or creates the file, and reads its lines. If the last line is incomplete, this run sends the
// request of that line again with the same Idempotency-Key, so that the API creates no second key.
func openDoneFile(path string) (*doneFile, error) {
	const mode = 0o600
	f, err := disk.OpenRegular(path, mode)
	if err != nil {
		return nil, exit.WithCode(exit.Usage, fmt.Errorf("%s cannot be opened: %w", path, disk.Cause(err)))
	}
	d := &doneFile{file: f, hashes: map[int]string{}}
	if err := d.read(); err != nil {
		return nil, errors.Join(exit.WithCode(exit.Usage, fmt.Errorf("%s: %w", path, err)), f.Close())
	}
	return d, nil
}

// startPattern matches the part of a line that begin() writes.
var startPattern = lazy.Regexp(`^\{"line":[0-9]+,"mark":"[0-9a-f]+","begun":"[^"]+"`)

// read reads the lines that earlier runs have recorded. It truncates an incomplete line after its startEntry, or
// removes the line if its startEntry is incomplete. It refuses a file that other users can read, or that this command
// has not written.
func (d *doneFile) read() error {
	info, err := d.file.Stat()
	if err != nil {
		return disk.Cause(err)
	}
	if disk.Exposed(info.Mode()) {
		return errors.New("others may read it, and it has keys: `chmod 600` it")
	}
	content, err := io.ReadAll(d.file)
	if err != nil {
		return disk.Cause(err)
	}
	complete := content[:bytes.LastIndexByte(content, '\n')+1]
	partial := content[len(complete):]
	// Never truncate a file that another program has written. An incomplete line must begin like each complete line.
	const prefix = `{"line":`
	recognized := strings.HasPrefix(string(partial), prefix) || strings.HasPrefix(prefix, string(partial))
	for line := range bytes.Lines(complete) {
		var entry startEntry
		if recognized = recognized && json.Unmarshal(line, &entry) == nil && entry.Line != 0; !recognized {
			break
		}
		d.hashes[entry.Line] = entry.Hash
	}
	if !recognized {
		return errors.New("it is no file that this command has written: move it away")
	}
	d.pendingOffset = int64(len(complete))
	head := startPattern().Find(partial)
	if head != nil {
		var entry startEntry
		if err := json.Unmarshal(append(bytes.Clone(head), '}'), &entry); err != nil {
			head = nil
		} else {
			d.pending, d.resumed, d.hashes[entry.Line] = &entry, true, entry.Hash
		}
	}
	return d.truncate(d.pendingOffset + int64(len(head)))
}

// truncate truncates the file. size is its new size in bytes. The next write continues there.
func (d *doneFile) truncate(size int64) error {
	if err := d.file.Truncate(size); err != nil {
		return disk.Cause(err)
	}
	if _, err := d.file.Seek(size, io.SeekStart); err != nil {
		return disk.Cause(err)
	}
	return nil
}

// hasKey reports whether an earlier run has recorded the key of a line.
func (d *doneFile) hasKey(row keyRow) bool {
	_, recorded := d.hashes[row.line]
	return recorded && (d.pending == nil || d.pending.Line != row.line)
}

// countKeys returns the number of rows whose keys earlier runs have recorded.
func (d *doneFile) countKeys(rows []keyRow) (n int) {
	for _, row := range rows {
		if d.hasKey(row) {
			n++
		}
	}
	return n
}

// pendingFirst returns the rows with the row of the incomplete line in front. A row before it may have been empty when
// that line was written, and the next key belongs to that line.
func (d *doneFile) pendingFirst(rows []keyRow) ([]keyRow, error) {
	if d.pending == nil {
		return rows, nil
	}
	i := slices.IndexFunc(rows, func(row keyRow) bool { return row.line == d.pending.Line })
	if i < 0 {
		return nil, fmt.Errorf("line %d is missing, and its key may have been made: put the line back", d.pending.Line)
	}
	return slices.Concat(rows[i:i+1], rows[:i], rows[i+1:]), nil
}

// begin records that the key of a line will now be requested, unless an earlier run has recorded it. If that run's
// request is older than files.IdempotencyKeyLifetime, begin returns an error: the key may exist, and another request
// could create a second key that nobody notices.
func (d *doneFile) begin(row keyRow, now time.Time) error {
	if d.pending == nil {
		d.pending, d.resumed = &startEntry{row.line, row.hash, now.UTC().Truncate(time.Second)}, false
		line, err := json.Marshal(d.pending)
		if err != nil {
			return fmt.Errorf("note that it is begun: %w", err)
		}
		return d.write(line[:len(line)-1])
	}
	if now.Sub(d.pending.StartedAt) > files.IdempotencyKeyLifetime {
		return exit.WithCode(exit.Conflict, fmt.Errorf("its key was asked for at %s, more than a day ago, and whether it "+
			"was made is not known any more: "+
			"look with `gatewright consumer key list`, delete the key of that time, which nobody has, and take the last line, "+
			"which has no end, out of %s",
			d.pending.StartedAt.Format(time.RFC3339), d.file.Name()))
	}
	return nil
}

// dropIfRefused removes the incomplete line if err says that the API has created no key. It keeps the line if an
// earlier run has written it, because that run may have created the key.
func (d *doneFile) dropIfRefused(err error) error {
	problem, ok := errors.AsType[*call.Problem](err)
	if d.resumed || !ok || problem.Status >= http.StatusInternalServerError {
		return nil
	}
	d.pending = nil
	return d.truncate(d.pendingOffset)
}

// finish completes the line with the created key, and syncs the file. Call it before the next key is requested.
func (d *doneFile) finish(key keyEntry) error {
	line, err := json.Marshal(key)
	if err != nil {
		return fmt.Errorf("note a key: %w", err)
	}
	line[0] = ','
	if err := d.write(append(line, '\n')); err != nil {
		return err
	}
	if err := d.file.Sync(); err != nil {
		return d.writeError(err)
	}
	d.pending = nil
	d.pendingOffset, err = d.file.Seek(0, io.SeekCurrent)
	return err
}

func (d *doneFile) write(text []byte) error {
	if _, err := d.file.Write(text); err != nil {
		return d.writeError(err)
	}
	return nil
}

func (d *doneFile) writeError(err error) error {
	return fmt.Errorf("%s cannot be written: %w\nthe same command goes on from there", d.file.Name(), disk.Cause(err))
}
