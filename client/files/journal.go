package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/gatewright/gatewright/shared/disk"
)

// progressSuffix is what the file beside a plan is called in addition that has how far it is applied.
const progressSuffix = ".progress"

// entry is a line of it: the plan that it is of, or a request that is about to be sent, or one that was answered.
type entry struct {
	Plan  string     `json:"plan,omitempty"`
	N     int        `json:"n,omitempty"` // from 1
	Begun *time.Time `json:"begun,omitempty"`
	Done  bool       `json:"done,omitempty"`
	// Key and ID are those of what was made.
	Key string `json:"key,omitempty"`
	ID  string `json:"id,omitempty"`
}

// journal is how far a plan is applied. Nil keeps nothing: of a plan that is in no file.
type journal struct {
	file *os.File
	held io.Closer
	// done counts the changes that are made, and begun is when the one after them was first sent, nil for never.
	done  int
	begun *time.Time
	ids   map[string]string
}

// Hold has a file be worked off by one process at a time, until what it gives is closed or the process ends. It is the file that says what is to be
// done, and not the one beside it that is written: Windows would let nobody write that.
func Hold(path string) (io.Closer, error) {
	held := flock.New(path, flock.SetFlag(os.O_RDONLY)) // which makes none
	switch ours, err := held.TryLock(); {
	case err != nil:
		return nil, usage("%s cannot be locked: %w", path, disk.Cause(err))
	case !ours:
		return nil, errors.Join(usage("%s is being worked off by another process: wait until that has ended", path), held.Close())
	}
	return held, nil
}

// openJournal opens the one of a plan, or begins it. A last line that is torn is cut off: its request is sent again, and is the same one.
func openJournal(plan string, p *Plan) (*journal, error) {
	path := plan + progressSuffix
	held, err := Hold(plan)
	if err != nil {
		return nil, err
	}
	f, err := disk.Keep(path, private)
	if err != nil {
		return nil, errors.Join(usage("%s cannot be opened: %w", path, disk.Cause(err)), held.Close())
	}
	j := &journal{file: f, held: held, ids: map[string]string{}}
	fresh, err := j.read(p)
	if err != nil {
		return nil, errors.Join(usage("%s: %w", path, err), j.close())
	}
	if fresh {
		if err := j.write(entry{Plan: p.Digest}, true); err != nil {
			return nil, errors.Join(err, j.close())
		}
	}
	if err := disk.SyncFolder(filepath.Dir(path)); err != nil {
		return nil, errors.Join(fmt.Errorf("%s cannot be kept: %w", path, disk.Cause(err)), j.close())
	}
	return j, nil
}

var errOtherPlan = errors.New("it is of another plan: move it away, or apply that one")

// read reads what is noted, and reports whether that is nothing yet.
func (j *journal) read(p *Plan) (fresh bool, err error) {
	content, err := io.ReadAll(j.file)
	if err != nil {
		return false, disk.Cause(err)
	}
	whole := content[:bytes.LastIndexByte(content, '\n')+1]
	if len(whole) == 0 {
		// Nothing is cut off a file of somebody else's: what is torn begins as the first line does.
		const begins = `{"plan":"`
		if torn := string(content); !strings.HasPrefix(torn, begins) && !strings.HasPrefix(begins, torn) {
			return false, errOtherPlan
		}
		return true, j.cut(0)
	}
	first := true
	for line := range bytes.Lines(whole) {
		var e entry
		if json.Unmarshal(line, &e) != nil || first && e.Plan != p.Digest {
			return false, errOtherPlan
		}
		first = false
		switch {
		case e.Done:
			j.done, j.begun = e.N, nil
			if e.ID != "" {
				j.ids[e.Key] = e.ID
			}
		case e.Begun != nil:
			j.begun = e.Begun
		}
	}
	if j.done > len(p.Changes) {
		return false, errOtherPlan
	}
	return false, j.cut(int64(len(whole)))
}

func (j *journal) cut(size int64) error {
	if err := j.file.Truncate(size); err != nil {
		return disk.Cause(err)
	}
	if _, err := j.file.Seek(size, io.SeekStart); err != nil {
		return disk.Cause(err)
	}
	return nil
}

func (j *journal) write(e entry, sure bool) error {
	if j.file == nil {
		return nil
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err == nil && sure {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w: the same command goes on from there", j.file.Name(), disk.Cause(err))
	}
	return nil
}

// begin notes that a request is about to be sent, unless it was before.
func (j *journal) begin(n int, now time.Time) error {
	if j.begun != nil {
		return nil
	}
	return j.write(entry{N: n, Begun: &now}, false)
}

// finish notes that it was answered, for good.
func (j *journal) finish(n int, key, id string) error {
	j.done, j.begun = n, nil
	if id != "" {
		j.ids[key] = id
	}
	return j.write(entry{N: n, Done: true, Key: key, ID: id}, true)
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	return errors.Join(j.file.Close(), j.held.Close())
}
