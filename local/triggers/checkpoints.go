package triggers

import (
	"encoding/json"
	"log/slog"

	"github.com/gatewright/gatewright/local/datadir"
)

// InDirectory keeps checkpoints as files of the data directory. One that
// cannot be read counts as none, and one that cannot be written is logged: both
// cost repetitions, nothing more.
func InDirectory(dir *datadir.Dir, log *slog.Logger) Checkpoints {
	return directory{dir, log}
}

type directory struct {
	dir *datadir.Dir
	log *slog.Logger
}

func checkpointFile(function string) string { return "stream-" + function + ".json" }

// Load implements Checkpoints.
func (d directory) Load(function string) Position {
	content, err := d.dir.Read(checkpointFile(function))
	if err != nil {
		return nil
	}
	var p Position
	if json.Unmarshal(content, &p) != nil {
		return nil
	}
	return p
}

// Save implements Checkpoints.
func (d directory) Save(function string, p Position) {
	content, err := json.Marshal(p)
	if err == nil {
		err = d.dir.Write(checkpointFile(function), append(content, '\n'))
	}
	if err != nil {
		d.log.Warn("the position in the table's stream cannot be saved", "error", err)
	}
}
