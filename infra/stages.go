package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// schemaFile is the JSON Schema of such a file, among them.
const schemaFile = "schema.json"

// irreversible are the words that AWS cannot undo: a protected stage says them from the first.
var irreversible = []string{"table", "multiRegionKey"}

// settingsOfStage reads the file of the context's stage, from the folder with those of all, and the context, which may say what the file leaves open
// and nothing else. An emulator has no file: its installation is a test's. The error tells everything that is wrong, a line each.
func settingsOfStage(open func(folder string) fs.FS, context func(string) any) (Settings, error) {
	given, wrong := contextWords(context)
	if context("stage") == "" {
		return Settings{}, errors.New("-c stage is empty: name a stage, such as dev, or leave it out")
	}
	emulator := context("emulator")
	if emulator != nil && emulator != "" {
		return settle(given, wrong)
	}
	first, err := given.settings()
	if err != nil {
		return first, err
	}
	if len(wrong) > 0 && context("stage") != nil && given["stage"] == nil {
		return first, errors.Join(wrong...) // of which stage it is said is not known
	}
	file := path.Join(first.Stages, first.Stage+".json")
	said, err := readStage(open(first.Stages), first.Stages, first.Stage)
	if err != nil {
		return first, errors.Join(append(wrong, err)...)
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		w, _ := wordNamed(name)
		switch v, is := given[name]; {
		case !is || reflect.DeepEqual(v, said[name]):
		case w.personal:
			wrong = append(wrong, fmt.Errorf("%s says another %s than -c %s: change the file, or leave the word out of the context", file, name, name))
		default:
			wrong = append(wrong, fmt.Errorf("%s says %s, and -c %s=%s something else: change the file, or leave the word out of the context", file, said.line(name), name, given.text(name)))
		}
	}
	maps.Copy(given, said)
	s, err := settle(given, wrong)
	s.FileDigest = said.digest()
	return s, inFile(file, err)
}

// digest returns a digest of the words, whatever their order and the spaces between them.
func (w words) digest() string {
	text, err := json.Marshal(w, json.Deterministic(true))
	if err != nil {
		return "" // they were read as JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// line is a word as a file has it.
func (w words) line(name string) string {
	text, err := json.Marshal(w[name])
	if err != nil {
		return name // it was read as JSON
	}
	return fmt.Sprintf("%q: %s", name, text)
}

// flags are words of the context in a text of an error.
var flags = regexp.MustCompile(`^-c |and -c `)

// inFile says of errors about words where these are to be written.
func inFile(file string, err error) error {
	if err == nil {
		return nil
	}
	var out []string
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, file) {
			line = file + " or the context: " + flags.ReplaceAllStringFunc(line, func(s string) string { return strings.TrimSuffix(s, "-c ") })
		}
		out = append(out, line)
	}
	return errors.New(strings.Join(out, "\n"))
}

// readBounded reads a file of at most so many bytes. What is no file, such as a pipe, is neither waited for nor read.
func readBounded(files fs.FS, name string, most int64) ([]byte, error) {
	is, err := fs.Stat(files, name)
	if err != nil {
		return nil, fmt.Errorf("look for it: %w", err)
	}
	if !is.Mode().IsRegular() {
		return nil, errors.New("it is no file: write the stage's words into one")
	}
	f, err := files.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open it: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("read it: %w", err)
	}
	if int64(len(text)) > most {
		return nil, fmt.Errorf("it has more than %d bytes, and no such file needs as many", most)
	}
	return text, nil
}

// mostStageBytes is far beyond a file with every word.
const mostStageBytes = 64 << 10

// readStage reads the file of a stage. Its error says everything that is wrong with it, a line each.
func readStage(stages fs.FS, folder, stage string) (words, error) {
	file := path.Join(folder, stage+".json")
	text, err := readBounded(stages, stage+".json", mostStageBytes)
	if errors.Is(err, fs.ErrNotExist) || stage+".json" == schemaFile {
		return nil, fmt.Errorf("there is no %s: write it, beginning from infra/stages/dev.json or infra/stages/production.json, or name a stage that has one by STAGE=%s", file, strings.Join(stageNames(stages), "|"))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var said words
	if err := json.Unmarshal(text, &said); err != nil { // which refuses a word that is said twice
		return nil, fmt.Errorf("%s is no JSON of one object%s", file, whereWrong(text, err))
	}
	if said == nil {
		return nil, fmt.Errorf("%s is no JSON of one object: it says null", file)
	}
	delete(said, "$schema")
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(said)) {
		w, is := wordNamed(name)
		switch {
		case !is:
			wrong = append(wrong, fmt.Errorf("%s: %w", file, unknown(name)))
		case w.inContext:
			wrong = append(wrong, fmt.Errorf("%s: %s is for the context (-c %s=…), where no stage has a file", file, name, name))
		default:
			if err := w.check(said[name]); err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", file, err))
			}
		}
	}
	// A word that is written wrong is told alone: what is missing may be what it was to say.
	if said["protected"] != false && len(wrong) == 0 {
		for _, name := range irreversible {
			if w, _ := wordNamed(name); said[name] == nil {
				wrong = append(wrong, fmt.Errorf("%s: say %q, which AWS cannot change afterwards: it %s (or say \"protected\": false, of an installation to try things with)", file, name, w.demand()))
			}
		}
	}
	if more := len(wrong) - mostWrong; more > 0 {
		wrong = append(wrong[:mostWrong], fmt.Errorf("%s: and %d more", file, more))
	}
	return said, errors.Join(wrong...)
}

// offset is what the decoder says of a place, in bytes.
var offset = regexp.MustCompile(` after offset \d+`)

// whereWrong says of a text that is no JSON in which line, as editors count, and why; "" of JSON of another kind.
func whereWrong(text []byte, err error) string {
	wrong, is := errors.AsType[*jsontext.SyntacticError](err)
	if !is {
		return ""
	}
	line := 1 + bytes.Count(text[:min(int(wrong.ByteOffset), len(text))], []byte("\n"))
	why := offset.ReplaceAllString(strings.TrimPrefix(err.Error(), "jsontext: "), "")
	return fmt.Sprintf(": line %d: %s", line, strings.ReplaceAll(why, "\n", " "))
}

// mostWrong is how many lines are told of a file.
const mostWrong = 12

// stageNames are the stages that have a file.
func stageNames(stages fs.FS) (out []string) {
	files, err := fs.Glob(stages, "*.json")
	if err != nil {
		return nil // the pattern is a good one
	}
	for _, f := range files {
		if f != schemaFile {
			out = append(out, strings.TrimSuffix(f, ".json"))
		}
	}
	return out
}
