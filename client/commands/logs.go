package commands

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/output"
)

func logResource() resource {
	return resource{
		name: "log", short: "The audit log: who has changed what, and what was refused",
		customCommands: func(a *App) []*cobra.Command {
			return []*cobra.Command{a.logListCommand(), a.logExportCommand(), a.logVerifyCommand()}
		},
	}
}

// auditOperation is the ID of the operation that lists audit records, newest first.
const auditOperation = "AuditLogsService_list"

// resourcesMember is the JSON member of an audit record that contains the affected resources.
const resourcesMember = "resources"

// maxResourcesWidth is the maximum width of the cell with the resources of a record, in terminal columns.
const maxResourcesWidth = 40

// resourcesCell returns the resources of a record, by name if they have one, as in: consumer acme, api-key key_0Vc8.
func resourcesCell(resources json.RawMessage) string {
	var all []struct {
		Type, ID string
		Metadata struct{ Name string }
	}
	if json.Unmarshal(resources, &all) != nil {
		return cellText(resources)
	}
	var names []string
	for _, r := range all {
		names = append(names, r.Type+" "+cmp.Or(r.Metadata.Name, r.ID))
	}
	return output.Truncate(strings.Join(names, ", "), maxResourcesWidth)
}

// auditColumns are the columns of the audit log's table.
var auditColumns = columns{
	"timestamp", "action", resourcesMember, "actor.email", "actor.sub", "success", "error",
	"requestId",
}

// followLog begins with the initialRecords newest records, and then polls the log every followInterval. It also reads
// the records of the last maxLateness again, because a record's time is the arrival of its request: a record can be
// written after another record with a later time. followTimeout is the default of --timeout for `log list` and `log
// export`.
const (
	followInterval = 2 * time.Second
	maxLateness    = 2 * time.Minute
	initialRecords = 20
	followTimeout  = 24 * time.Hour
)

func (a *App) logListCommand() *cobra.Command {
	params := []parameter{
		{argument: "action", flag: "action", help: "of this action alone, such as key-bucket.create"},
		{argument: "actor", flag: "actor", help: "of who asked, by email or by the id of an account key"},
		{
			argument: "success", flag: "success", kind: asBool,
			help: "of what was done, or with =false of what was refused or has failed",
		},
		{
			argument: "startDate", flag: "from", kind: asPastTime,
			help: "of this time or later; of the 30 days before the end without it",
		},
		{argument: "endDate", flag: "to", kind: asPastTime, help: "of before this time; up to now without it"},
	}
	v := verb{
		name: "list", short: "List audit records, the newest first, or follow them", operation: auditOperation,
		params: params, columns: auditColumns, empty: "There are none.",
		long: "--follow writes the newest 20, the oldest of them first, and each that comes, until Ctrl-C: in JSON a " +
			"record a line.",
	}
	var follow bool
	c := v.newCommand("gatewright log")
	c.Example += " --success=false\n  gatewright log list --action key-bucket.delete --follow"
	a.remoteCommandWithTimeout(followTimeout, c, func(ctx context.Context, s *session, args []string) error {
		arguments, err := v.arguments(c, args, nil, a.now)
		if err != nil {
			return err
		}
		arguments["limit"] = maxPageRecords
		if !follow {
			return s.run(ctx, v, arguments, true)
		}
		if arguments["endDate"] != nil {
			return exit.WithCode(exit.Usage, errors.New("--follow goes on with what comes, and --to ends before it: say "+
				"one of the two"))
		}
		return s.followLog(ctx, arguments)
	})
	a.addFlags(v, c)
	c.Flags().BoolVar(&follow, "follow", false, "go on with each record that comes")
	return c
}

// maxPageRecords is the maximum number of records in a page of the audit log.
const maxPageRecords = 100

// followLog writes new records until ctx ends.
func (s *session) followLog(ctx context.Context, arguments map[string]any) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	f := follower{written: map[[sha256.Size]byte]time.Time{}}
	for {
		records, err := f.poll(ctx, api, arguments)
		if err != nil {
			return err
		}
		for _, record := range records {
			if err := s.writeRecord(ctx, record); err != nil {
				return err
			}
		}
		if err := api.Sleep(ctx, followInterval); err != nil {
			return fmt.Errorf("wait for audit records: %w", err)
		}
	}
}

// writeRecord writes a record on one line.
func (s *session) writeRecord(ctx context.Context, record json.RawMessage) error {
	if s.out.Format() != output.Table {
		return s.out.Entry(ctx, record)
	}
	return s.out.Text(output.Grid{Rows: [][]string{auditColumns.row(record)}}.String())
}

// follower remembers the records that were written. It forgets a record that is more than maxLateness older than the
// newest record, because such a record is not read again.
type follower struct {
	written map[[sha256.Size]byte]time.Time // the time of each record, by the hash of the record
	newest  time.Time                       // the time of the newest record
	started bool                            // whether poll has returned records before
}

// poll returns the records that are not written yet, oldest first. It reads pages until the last page, or until it
// finds a record that is more than maxLateness older than the newest known record. The first call also reads on until
// it has initialRecords records, and returns only the newest initialRecords.
func (f *follower) poll(ctx context.Context, api *call.API, arguments map[string]any) ([]json.RawMessage, error) {
	query := maps.Clone(arguments)
	var records []json.RawMessage
	oldest := time.Time{}
	if !f.newest.IsZero() {
		oldest = f.newest.Add(-maxLateness)
	}
	tracker := call.PageTracker{}
	for done := false; !done; {
		resp, err := api.Call(ctx, auditOperation, query)
		if err != nil {
			return nil, err
		}
		var page struct {
			Data []json.RawMessage
			Next string
		}
		if err := call.Decode(resp.Body, &page); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		for _, record := range page.Data {
			var entry struct{ Timestamp time.Time }
			if err := call.Decode(record, &entry); err != nil {
				return nil, fmt.Errorf("read the audit log: %w", err)
			}
			if !f.started && oldest.IsZero() {
				oldest = entry.Timestamp.Add(-maxLateness)
			}
			if done = entry.Timestamp.Before(oldest) && (f.started || len(records) >= initialRecords); done {
				break
			}
			id := sha256.Sum256(record)
			if _, known := f.written[id]; !known {
				f.written[id] = entry.Timestamp
				records = append(records, record)
			}
			if entry.Timestamp.After(f.newest) {
				f.newest = entry.Timestamp
			}
		}
		if done = done || page.Next == "" || len(page.Data) == 0; done {
			break
		}
		if err := tracker.AddPage(len(resp.Body), page.Next); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		query["after"] = page.Next
	}
	if !f.started && len(records) > initialRecords {
		records = records[:initialRecords]
	}
	f.started = true
	maps.DeleteFunc(f.written, func(_ [sha256.Size]byte, timestamp time.Time) bool {
		return timestamp.Before(f.newest.Add(-maxLateness))
	})
	slices.Reverse(records)
	return records, nil
}
