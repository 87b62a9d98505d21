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

// doneSuffix is what the file is called in addition that has what was made of a file.
const doneSuffix = ".done"

// tellEvery is after how many keys a person is told how far it is.
const tellEvery = 100

// wanted is a key of a file: a line of it.
type wanted struct {
	line int
	// values are those of the columns, but for empty ones.
	values map[string]string
	// mark is the line's own, which the same line of another file does not have.
	mark string
}

const nameColumn = "name"

// wantedOf reads a file of keys, all of it, before any is made. Errors name lines, and nothing that stands there.
func wantedOf(content []byte, consumer bool, of string) ([]wanted, error) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(content, []byte("\ufeff")))) // spreadsheets begin a file so
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
	if slices.Contains(header, nameColumn) == consumer {
		return nil, errors.New("it has a column name, or --consumer names whose keys they are: one of the two")
	}
	var all []wanted
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if wrong, ok := errors.AsType[*csv.ParseError](err); ok {
			return nil, fmt.Errorf("line %d: %w", wrong.Line, wrong.Err)
		}
		line, _ := r.FieldPos(0)
		w := wanted{line: line, values: map[string]string{}}
		for i, value := range record {
			if value != "" {
				w.values[header[i]] = value
			}
		}
		if !consumer && w.values[nameColumn] == "" {
			return nil, fmt.Errorf("line %d: it has no name", line)
		}
		if at := w.values["expiresOn"]; at != "" {
			if _, err := time.Parse(time.RFC3339, at); err != nil {
				return nil, fmt.Errorf("line %d: expiresOn is no time such as 2030-01-31T00:00:00Z", line)
			}
		}
		sum := sha256.Sum256([]byte(of + "\x00" + strconv.Itoa(line) + "\x00" + strings.Join(header, "\x00") + "\x00\x00" + strings.Join(record, "\x00")))
		w.mark = hex.EncodeToString(sum[:])
		all = append(all, w)
	}
}

// bulk makes the keys of a file, but for those that were made before.
func (s *session) bulk(ctx context.Context, path string, of map[string]any) error {
	if path == "-" {
		return exit.With(exit.Usage, errors.New("--from names a file: what is made of it is noted beside it, and stdin has no such place"))
	}
	held, err := files.Hold(path)
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	content, err := (&onceRead{}).file(fromFlag, path)
	if err != nil {
		return err
	}
	api, err := s.api()
	if err != nil {
		return err
	}
	whole, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("find %s: %w", path, err)
	}
	consumer, _ := of["consumerName"].(string)
	bucket, _ := of["bucketName"].(string)
	all, err := wantedOf(content, consumer != "", strings.Join([]string{api.Access.Origin.String(), bucket, consumer, whole}, "\x00"))
	if err != nil {
		return exit.With(exit.Invalid, fmt.Errorf("%s: %w", path, err))
	}
	account, err := api.Account(ctx)
	if err != nil {
		return err
	}
	of["accountName"] = account
	d, err := openDone(path + doneSuffix)
	if err != nil {
		return err
	}
	defer func() { _ = d.file.Close() }()
	for _, w := range all {
		if mark, before := d.marks[w.line]; before && mark != w.mark {
			return exit.With(exit.Usage, fmt.Errorf("%s: line %d is not the one that %s is of: give the file another name", path, w.line, path+doneSuffix))
		}
	}
	n := 0
	for i, w := range all {
		if d.made(w) {
			continue
		}
		if err := d.begin(w, s.app.now()); err != nil {
			return fmt.Errorf("%s: line %d: %w", path, w.line, err)
		}
		key, err := s.one(ctx, w, of)
		if err != nil {
			return fmt.Errorf("%s: line %d: %w\n%d of %d keys are made; the same command goes on from there", path, w.line, errors.Join(err, d.refused(err)), i, len(all))
		}
		if err := d.finish(key); err != nil {
			return err
		}
		if n++; n%tellEvery == 0 {
			s.out.Say("%d of %d keys are made", i+1, len(all))
		}
	}
	document, err := json.Marshal(struct {
		Made   int    `json:"made"`
		Before int    `json:"madeBefore"`
		File   string `json:"file"`
	}{n, len(all) - n, path + doneSuffix})
	if err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return s.out.Document(ctx, document, nil)
}

// one makes a key, and its consumer where it is not there. Both say which line asks for them: asked again, they are made once.
func (s *session) one(ctx context.Context, w wanted, of map[string]any) (made, error) {
	n := made{}
	n.Name, _ = of["consumerName"].(string)
	if n.Name == "" {
		n.Name = w.values[nameColumn]
		_, err := s.named(ctx, "ApiKeyConsumersService_create", map[string]any{
			"accountName": of["accountName"], "bucketName": of["bucketName"], "name": n.Name, "idempotencyKey": w.try("consumer"),
		})
		if err != nil && exit.Of(err) != exit.Conflict { // one that is there has the key too
			return n, err
		}
	}
	arguments := maps.Clone(of)
	for column, value := range w.values {
		if column != nameColumn {
			arguments[column] = value
		}
	}
	arguments["consumerName"], arguments["idempotencyKey"] = n.Name, w.try(keyMember)
	answer, err := s.named(ctx, "ApiKeyKeysService_create", arguments)
	if err != nil {
		return n, err
	}
	var key struct{ ID, Key string }
	if err := json.Unmarshal(answer.Body, &key); err != nil || key.ID == "" {
		return n, errors.New("the answer has no key")
	}
	n.ID, n.Key = key.ID, key.Key
	return n, nil
}

// try is the Idempotency-Key of a line's request.
func (w wanted) try(what string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(w.mark+what)).String()
}
