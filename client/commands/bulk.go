package commands

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/files"
)

// doneFileSuffix is appended to the name of the input file. The result is the name of the doneFile, which has the
// created keys.
const doneFileSuffix = ".done"

// progressInterval is the number of created keys, or of changes of apply, between two progress messages.
const progressInterval = 100

// keyRow is a line of the input file, a CSV file: it describes a key to create.
type keyRow struct {
	line int
	// values are the values of the columns, without empty ones.
	values map[string]string
	// hash identifies the key to create. It is computed from the installation, the bucket, the consumer, the file's
	// path, the names of the columns, the line's number and the line's content.
	hash string
}

// nameColumn is the column with the consumer's name.
const nameColumn = "name"

// parseKeyRows parses the content of an input file. hasConsumer says that --consumer names the consumer of all keys.
// scope is a part of each row's hash. Errors can contain a line number, but no content of the file.
func parseKeyRows(content []byte, hasConsumer bool, scope string) ([]keyRow, error) {
	// Spreadsheets begin a file with a byte order mark.
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(content, []byte("\ufeff"))))
	header, err := r.Read()
	if err != nil {
		return nil, errors.New("it has no line with the names of its columns")
	}
	known := []string{nameColumn, "description", "expiresOn", keyMember}
	for i, column := range header {
		header[i] = strings.TrimSpace(column)
		if !slices.Contains(known, header[i]) || slices.Contains(header[:i], header[i]) {
			return nil, fmt.Errorf("its first line names columns: %s, each once", strings.Join(known, ", "))
		}
	}
	if slices.Contains(header, nameColumn) == hasConsumer {
		return nil, errors.New("it has a column name, or --consumer names whose keys they are: one of the two")
	}
	var rows []keyRow
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if parseErr, ok := errors.AsType[*csv.ParseError](err); ok {
			return nil, fmt.Errorf("line %d: %w", parseErr.Line, parseErr.Err)
		}
		line, _ := r.FieldPos(0)
		row := keyRow{line: line, values: map[string]string{}}
		for i, value := range record {
			if value != "" {
				row.values[header[i]] = value
			}
		}
		if !hasConsumer && row.values[nameColumn] == "" {
			return nil, fmt.Errorf("line %d: it has no name", line)
		}
		if expiry := row.values["expiresOn"]; expiry != "" {
			if _, err := time.Parse(time.RFC3339, expiry); err != nil {
				return nil, fmt.Errorf("line %d: expiresOn is no time such as 2030-01-31T00:00:00Z", line)
			}
		}
		sum := sha256.Sum256([]byte(scope + "\x00" + strconv.Itoa(line) + "\x00" + strings.Join(header, "\x00") + "\x00\x00" +
			strings.Join(record, "\x00")))
		row.hash = hex.EncodeToString(sum[:])
		rows = append(rows, row)
	}
}

// createKeys creates the keys of the input file at path, except the keys that an earlier run has created.
func (s *session) createKeys(ctx context.Context, path string, arguments map[string]any) error {
	if path == "-" {
		return exit.WithCode(exit.Usage, errors.New("--from names a file: what is made of it is noted beside it, and stdin "+
			"has no such place"))
	}
	lock, err := files.LockFile(path)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	content, err := (&flagReader{}).readFile(fromFlag, path)
	if err != nil {
		return err
	}
	api, err := s.api()
	if err != nil {
		return err
	}
	absPath, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("find %s: %w", path, err)
	}
	consumer, _ := arguments["consumerName"].(string)
	bucket, _ := arguments["bucketName"].(string)
	rows, err := parseKeyRows(content, consumer != "",
		strings.Join([]string{api.Access.Origin.String(), bucket, consumer, absPath}, "\x00"))
	if err != nil {
		return exit.WithCode(exit.Invalid, fmt.Errorf("%s: %w", path, err))
	}
	account, err := api.Account(ctx)
	if err != nil {
		return err
	}
	arguments["accountName"] = account
	d, err := openDoneFile(path + doneFileSuffix)
	if err != nil {
		return err
	}
	defer func() { _ = d.file.Close() }()
	for _, row := range rows {
		if hash, recorded := d.hashes[row.line]; recorded && hash != row.hash {
			return exit.WithCode(exit.Usage, fmt.Errorf("%s: line %d is not the one that %s is of: give the file another name",
				path, row.line, path+doneFileSuffix))
		}
	}
	if rows, err = d.pendingFirst(rows); err != nil {
		return exit.WithCode(exit.Usage, fmt.Errorf("%s: %w", path, err))
	}
	n, before := 0, d.countKeys(rows)
	for _, row := range rows {
		if d.hasKey(row) {
			continue
		}
		if err := d.begin(row, s.app.now()); err != nil {
			return fmt.Errorf("%s: line %d: %w", path, row.line, err)
		}
		key, err := s.createKey(ctx, row, arguments)
		if err != nil {
			return fmt.Errorf("%s: line %d: %w\n%d of %d keys are made; the same command goes on from there", path, row.line,
				errors.Join(err, d.dropIfRefused(err)), before+n, len(rows))
		}
		if err := d.finish(key); err != nil {
			return err
		}
		if n++; n%progressInterval == 0 {
			s.out.Infof("%d of %d keys are made", before+n, len(rows))
		}
	}
	document, err := json.Marshal(struct {
		Created       int    `json:"made"`
		CreatedBefore int    `json:"madeBefore"`
		File          string `json:"file"`
	}{n, before, path + doneFileSuffix})
	if err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return s.out.Document(ctx, document, nil)
}

// createKey creates a key. common has the arguments that all keys share. If the row names the consumer, createKey
// creates this consumer first, unless it exists. The Idempotency-Keys are derived from the line's hash, so repeated
// requests create the key and the consumer once.
func (s *session) createKey(ctx context.Context, row keyRow, common map[string]any) (keyEntry, error) {
	entry := keyEntry{}
	entry.ConsumerName, _ = common["consumerName"].(string)
	if entry.ConsumerName == "" {
		entry.ConsumerName = row.values[nameColumn]
		_, err := s.call(ctx, "ApiKeyConsumersService_create", map[string]any{
			"accountName": common["accountName"], "bucketName": common["bucketName"], "name": entry.ConsumerName,
			"idempotencyKey": row.idempotencyKey("consumer"),
		})
		if err != nil && exit.CodeOf(err) != exit.Conflict { // Conflict: the consumer exists, and gets the key
			return entry, err
		}
	}
	arguments := maps.Clone(common)
	for column, value := range row.values {
		if column != nameColumn {
			arguments[column] = value
		}
	}
	arguments["consumerName"], arguments["idempotencyKey"] = entry.ConsumerName, row.idempotencyKey(keyMember)
	resp, err := s.call(ctx, "ApiKeyKeysService_create", arguments)
	if err != nil {
		return entry, err
	}
	var key struct{ ID, Key string }
	if err := json.Unmarshal(resp.Body, &key); err != nil || key.ID == "" {
		return entry, errors.New("the answer has no key")
	}
	entry.ID, entry.Key = key.ID, key.Key
	return entry, nil
}

// idempotencyKey returns the Idempotency-Key of a request for this row. purpose distinguishes the requests of the row:
// "consumer" or keyMember.
func (r keyRow) idempotencyKey(purpose string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(r.hash+purpose)).String()
}
