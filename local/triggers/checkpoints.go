package triggers

import (
	"encoding/json"
	"log/slog"

	"github.com/gatewright/gatewright/local/datadir"
)

// NewFileCheckpoints returns checkpoints in files of the data directory. An unreadable checkpoint is treated
// as missing, and a failed write is only logged: the consequence is that records are delivered again.
func NewFileCheckpoints(dir *datadir.Dir, log *slog.Logger) Checkpoints {
	return fileCheckpoints{dir, log}
}

type fileCheckpoints struct {
	dir *datadir.Dir
	log *slog.Logger
}

func checkpointFile(function string) string { return "stream-" + function + ".json" }

// Load implements Checkpoints.
func (f fileCheckpoints) Load(function string) Position {
	content, err := f.dir.Read(checkpointFile(function))
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
func (f fileCheckpoints) Save(function string, p Position) {
	content, err := json.Marshal(p)
	if err == nil {
		err = f.dir.Write(checkpointFile(function), append(content, '\n'))
	}
	if err != nil {
		f.log.Warn("the position in the table's stream cannot be saved", "error", err)
	}
}
