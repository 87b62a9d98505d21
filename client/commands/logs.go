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

func logNoun() noun {
	return noun{name: "log", short: "The audit log: who has changed what, and what was refused", own: func(a *App) []*cobra.Command {
		return []*cobra.Command{a.logListCommand(), a.logExportCommand(), a.logVerifyCommand()}
	}}
}

// auditOperation lists audit records, the newest first.
const auditOperation = "AuditLogsService_list"

// resourcesMember has what a record is about.
const resourcesMember = "resources"

// mostResources is how wide the cell of what a record is about is at most, in columns of a terminal.
const mostResources = 40

// resourcesCell is what a record is about, by its name where it has one, as in: consumer acme, api-key key_0Vc8.
func resourcesCell(resources json.RawMessage) string {
	var all []struct {
		Type, ID string
		Metadata struct{ Name string }
	}
	if json.Unmarshal(resources, &all) != nil {
		return cellOf(resources)
	}
	var shown []string
	for _, r := range all {
		shown = append(shown, r.Type+" "+cmp.Or(r.Metadata.Name, r.ID))
	}
	return output.Cut(strings.Join(shown, ", "), mostResources)
}

// auditColumns are those of a record that a person asks for.
var auditColumns = columns{"timestamp", "action", resourcesMember, "actor.email", "actor.sub", "success", "error", "requestId"}

// The log is asked for new records so often, and each time from so long before the newest on: a record has the time at which its
// request came, and may be written after one that came later.
const (
	followEvery = 2 * time.Second
	lateBy      = 2 * time.Minute
	firstShown  = 20
	followTime  = 24 * time.Hour
)

func (a *App) logListCommand() *cobra.Command {
	takes := []given{
		{argument: "action", flag: "action", text: "of this action alone, such as key-bucket.create"},
		{argument: "actor", flag: "actor", text: "of who asked, by email or by the id of an account key"},
		{argument: "success", flag: "success", kind: asBool, text: "of what was done, or with =false of what was refused or has failed"},
		{argument: "startDate", flag: "from", kind: asAgo, text: "of this time or later; of the 30 days before the end without it"},
		{argument: "endDate", flag: "to", kind: asAgo, text: "of before this time; up to now without it"},
	}
	v := verb{
		name: "list", short: "List audit records, the newest first, or follow them", operation: auditOperation, takes: takes, shown: auditColumns, empty: "There are none.",
		long: "--follow writes the newest 20, the oldest of them first, and each that comes, until Ctrl-C: in JSON a record a line.",
	}
	var follow bool
	c := v.shape("gatewright log")
	c.Example += " --success=false\n  gatewright log list --action key-bucket.delete --follow"
	a.askingFor(followTime, c, func(ctx context.Context, s *session, words []string) error {
		arguments, err := v.arguments(c, words, nil, a.now)
		if err != nil {
			return err
		}
		arguments["limit"] = mostRecords
		if !follow {
			return s.ask(ctx, v, arguments, true)
		}
		if arguments["endDate"] != nil {
			return exit.With(exit.Usage, errors.New("--follow goes on with what comes, and --to ends before it: say one of the two"))
		}
		return s.followLog(ctx, arguments)
	})
	a.flags(v, c)
	c.Flags().BoolVar(&follow, "follow", false, "go on with each record that comes")
	return c
}

// mostRecords is how many a page of the audit log has at most.
const mostRecords = 100

// followLog writes records as they come.
func (s *session) followLog(ctx context.Context, arguments map[string]any) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	f := follower{written: map[[sha256.Size]byte]time.Time{}}
	for {
		fresh, err := f.poll(ctx, api, arguments)
		if err != nil {
			return err
		}
		for _, record := range fresh {
			if err := s.line(ctx, record); err != nil {
				return err
			}
		}
		if err := api.Sleep(ctx, followEvery); err != nil {
			return fmt.Errorf("wait for audit records: %w", err)
		}
	}
}

// line writes a record on a line.
func (s *session) line(ctx context.Context, record json.RawMessage) error {
	if s.out.Format() != output.Table {
		return s.out.Entry(ctx, record)
	}
	return s.out.Text(output.Grid{Rows: [][]string{auditColumns.row(record)}}.String())
}

// follower knows which records were written: by all that they say, for as long as late ones are looked for.
type follower struct {
	written map[[sha256.Size]byte]time.Time
	newest  time.Time
	begun   bool
}

// poll asks for the records that are not written yet, the oldest first: page after page, until they are older than any that may
// come late. The first time it gives the newest few.
func (f *follower) poll(ctx context.Context, api *call.API, arguments map[string]any) ([]json.RawMessage, error) {
	of := maps.Clone(arguments)
	var fresh []json.RawMessage
	floor := time.Time{}
	if !f.newest.IsZero() {
		floor = f.newest.Add(-lateBy)
	}
	at := call.Cursor{}
	for past := false; !past; {
		answer, err := api.Named(ctx, auditOperation, of)
		if err != nil {
			return nil, err
		}
		var page struct {
			Data []json.RawMessage
			Next string
		}
		if err := call.Read(answer.Body, &page); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		for _, record := range page.Data {
			var is struct{ Timestamp time.Time }
			if err := call.Read(record, &is); err != nil {
				return nil, fmt.Errorf("read the audit log: %w", err)
			}
			if !f.begun && floor.IsZero() {
				floor = is.Timestamp.Add(-lateBy)
			}
			if past = is.Timestamp.Before(floor) && (f.begun || len(fresh) >= firstShown); past {
				break
			}
			id := sha256.Sum256(record)
			if _, before := f.written[id]; !before {
				f.written[id] = is.Timestamp
				fresh = append(fresh, record)
			}
			if is.Timestamp.After(f.newest) {
				f.newest = is.Timestamp
			}
		}
		if past = past || page.Next == "" || len(page.Data) == 0; past {
			break
		}
		if err := at.Next(len(answer.Body), page.Next); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		of["after"] = page.Next
	}
	if !f.begun && len(fresh) > firstShown {
		fresh = fresh[:firstShown]
	}
	f.begun = true
	maps.DeleteFunc(f.written, func(_ [sha256.Size]byte, at time.Time) bool { return at.Before(f.newest.Add(-lateBy)) })
	slices.Reverse(fresh)
	return fresh, nil
}
