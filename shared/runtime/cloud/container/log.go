package container

import (
	"io"
	"log/slog"

	"github.com/gatewright/gatewright/shared/base/asynclog"
)

// newLogHandler returns a handler that writes the log lines of requests in the background. Any other line is written
// before the call returns, after the lines that precede it. flush writes the waiting lines. Call flush after all
// logging.
func newLogHandler(w io.Writer) (handler slog.Handler, flush func()) {
	var syncLog *slog.Logger // logs lost lines without the queue, because the queue cannot wait for itself
	queue := asynclog.New(w, func(lost int) { asynclog.LogDropped(syncLog, lost) })
	jsonHandler := asynclog.JSON(queue, slog.LevelInfo)
	syncLog = slog.New(jsonHandler)
	return asynclog.Handler(jsonHandler, queue, asynclog.IsRequest), queue.Close
}
