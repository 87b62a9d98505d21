package container

import (
	"io"
	"log/slog"

	"github.com/gatewright/gatewright/shared/behind"
)

// logOf writes the lines of requests behind them, in order with the others, which are written at once. end
// writes what waits, and is the last that is done.
func logOf(to io.Writer) (by slog.Handler, end func()) {
	var unwaiting *slog.Logger // of what is written behind, which cannot wait for itself
	written := behind.New(to, func(lost int) { behind.TellLost(unwaiting, lost) })
	lines := behind.JSON(written, slog.LevelInfo)
	unwaiting = slog.New(lines)
	return behind.Handler(lines, written, behind.OfRequest), written.Close
}
