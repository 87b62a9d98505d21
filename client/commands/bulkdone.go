package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/files"
	"github.com/gatewright/gatewright/shared/disk"
	"github.com/gatewright/gatewright/shared/lazy"
)

// begun is the first part of what is noted of a line, written before its key is asked for.
type begun struct {
	Line int    `json:"line"`
	Mark string `json:"mark"`
	// Begun is when it was asked for first.
	Begun time.Time `json:"begun"`
}

// made is the other part, written once the key is there.
type made struct {
	Name string `json:"name"`
	ID   string `json:"id"`
	Key  string `json:"key"`
}

// done is the file with what was made of a file of keys, a line of JSON for each. A process that is killed while it waits for a key leaves a line
// without its end, which says whose key that is.
type done struct {
	file *os.File
	// marks are those of the lines that are noted, also of the one that is begun, by their numbers.
	marks map[int]string
	// open is the line that has no end, nil for none, and at where it begins, in bytes.
	open *begun
	at   int64
	// again says that it was begun by a run before.
	again bool
}

// openDone opens the file, and makes it where there is none. Of a last line that is torn stays what it says of when it was begun: its key is
// asked for again by the same Idempotency-Key, which makes none anew.
func openDone(path string) (*done, error) {
	const private = 0o600
	f, err := disk.Keep(path, private)
	if err != nil {
		return nil, exit.With(exit.Usage, fmt.Errorf("%s cannot be opened: %w", path, disk.Cause(err)))
	}
	d := &done{file: f, marks: map[int]string{}}
	if err := d.read(); err != nil {
		return nil, errors.Join(exit.With(exit.Usage, fmt.Errorf("%s: %w", path, err)), f.Close())
	}
	return d, nil
}

// beginning is that of a line as begin writes it.
var beginning = lazy.Regexp(`^\{"line":[0-9]+,"mark":"[0-9a-f]+","begun":"[^"]+"`)

func (d *done) read() error {
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
	whole := content[:bytes.LastIndexByte(content, '\n')+1]
	torn := content[len(whole):]
	// Nothing is cut off a file of somebody else's: what is torn begins as each line does.
	const begins = `{"line":`
	ours := strings.HasPrefix(string(torn), begins) || strings.HasPrefix(begins, string(torn))
	for line := range bytes.Lines(whole) {
		var n begun
		if ours = ours && json.Unmarshal(line, &n) == nil && n.Line != 0; !ours {
			break
		}
		d.marks[n.Line] = n.Mark
	}
	if !ours {
		return errors.New("it is no file that this command has written: move it away")
	}
	d.at = int64(len(whole))
	head := beginning().Find(torn)
	if head != nil {
		var n begun
		if err := json.Unmarshal(append(bytes.Clone(head), '}'), &n); err != nil {
			head = nil
		} else {
			d.open, d.again, d.marks[n.Line] = &n, true, n.Mark
		}
	}
	return d.cut(d.at + int64(len(head)))
}

func (d *done) cut(size int64) error {
	if err := d.file.Truncate(size); err != nil {
		return disk.Cause(err)
	}
	if _, err := d.file.Seek(size, io.SeekStart); err != nil {
		return disk.Cause(err)
	}
	return nil
}

// made reports whether the key of a line is noted.
func (d *done) made(w wanted) bool {
	_, noted := d.marks[w.line]
	return noted && (d.open == nil || d.open.Line != w.line)
}

// begin notes that the key of a line is about to be asked for, unless it was before. One that was asked for longer ago than the API knows is
// refused: it may be there, and another one would be made beside it that nobody misses.
func (d *done) begin(w wanted, now time.Time) error {
	if d.open == nil {
		d.open, d.again = &begun{w.line, w.mark, now.UTC().Truncate(time.Second)}, false
		line, err := json.Marshal(d.open)
		if err != nil {
			return fmt.Errorf("note that it is begun: %w", err)
		}
		return d.write(line[:len(line)-1])
	}
	if now.Sub(d.open.Begun) > files.KeptFor {
		return exit.With(exit.Conflict, fmt.Errorf("its key was asked for at %s, more than a day ago, and whether it was made is not known any more: "+
			"look with `gatewright consumer key list`, delete the key of that time, which nobody has, and take the last line, which has no end, out of %s",
			d.open.Begun.Format(time.RFC3339), d.file.Name()))
	}
	return nil
}

// refused forgets that a line was begun where the API says that it has made nothing, unless a run before may have made it.
func (d *done) refused(err error) error {
	problem, is := errors.AsType[*call.Problem](err)
	if d.again || !is || problem.Status >= http.StatusInternalServerError {
		return nil
	}
	d.open = nil
	return d.cut(d.at)
}

// finish notes what was made, for good, before the next key is asked for.
func (d *done) finish(key made) error {
	line, err := json.Marshal(key)
	if err != nil {
		return fmt.Errorf("note a key: %w", err)
	}
	line[0] = ','
	if err := d.write(append(line, '\n')); err != nil {
		return err
	}
	if err := d.file.Sync(); err != nil {
		return d.unwritten(err)
	}
	d.open = nil
	d.at, err = d.file.Seek(0, io.SeekCurrent)
	return err
}

func (d *done) write(text []byte) error {
	if _, err := d.file.Write(text); err != nil {
		return d.unwritten(err)
	}
	return nil
}

func (d *done) unwritten(err error) error {
	return fmt.Errorf("%s cannot be written: %w\nthe same command goes on from there", d.file.Name(), disk.Cause(err))
}
