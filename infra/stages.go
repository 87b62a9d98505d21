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

// schemaFile is the JSON Schema of a stage's file, in the same folder.
const schemaFile = "schema.json"

// irreversible are the settings that AWS cannot change later. The file of a protected stage must have them from the
// start.
var irreversible = []string{"table", "multiRegionKey"}

// loadSettings reads the settings in the context, and those in the file of the context's stage. If both have a setting,
// its values must be equal. For an emulator, loadSettings ignores the file, because such an installation is for tests.
// open returns the folder with the files of all stages. The error has a line for each problem.
func loadSettings(open func(folder string) fs.FS, context func(string) any) (Settings, error) {
	values, errs := contextValues(context)
	if context("stage") == "" {
		return Settings{}, errors.New("-c stage is empty: name a stage, such as dev, or leave it out")
	}
	emulator := context("emulator")
	if emulator != nil && emulator != "" {
		return newSettings(values, errs)
	}
	base, err := values.settings()
	if err != nil {
		return base, err
	}
	if len(errs) > 0 && context("stage") != nil && values["stage"] == nil {
		return base, errors.Join(errs...) // without a valid stage, the name of its file is unknown
	}
	file := path.Join(base.Stages, base.Stage+".json")
	fileValues, err := readStage(open(base.Stages), base.Stages, base.Stage)
	if err != nil {
		return base, errors.Join(append(errs, err)...)
	}
	for _, name := range slices.Sorted(maps.Keys(fileValues)) {
		def, _ := settingNamed(name)
		switch v, ok := values[name]; {
		case !ok || reflect.DeepEqual(v, fileValues[name]):
		case def.personal:
			errs = append(errs,
				fmt.Errorf("%s says another %s than -c %s: change the file, or leave the word out of the context", file, name,
					name))
		default:
			errs = append(errs, fmt.Errorf("%s says %s, and -c %s=%s something else: change the file, or leave the word out "+
				"of the context", file, fileValues.line(name), name, values.text(name)))
		}
	}
	maps.Copy(values, fileValues)
	s, err := newSettings(values, errs)
	s.FileDigest = fileValues.digest()
	return s, withFileName(file, err)
}

// digest returns a digest of the settings. Their order and the spaces between them do not matter.
func (v settingValues) digest() string {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return "" // cannot happen: the values were decoded from JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// line returns a setting as a file has it: "name": value.
func (v settingValues) line(name string) string {
	text, err := json.Marshal(v[name])
	if err != nil {
		return name // cannot happen: the value was decoded from JSON
	}
	return fmt.Sprintf("%q: %s", name, text)
}

// contextFlags matches the flag -c in front of a setting in the text of an error.
var contextFlags = regexp.MustCompile(`^-c |and -c `)

// withFileName adds the file's name to each line of err that does not begin with it. It also removes the flag -c in
// front of settings from these lines, because the setting can be in the file or in the context.
func withFileName(file string, err error) error {
	if err == nil {
		return nil
	}
	var out []string
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, file) {
			line = file + " or the context: " + contextFlags.ReplaceAllStringFunc(line, func(s string) string {
				return strings.TrimSuffix(s, "-c ")
			})
		}
		out = append(out, line)
	}
	return errors.New(strings.Join(out, "\n"))
}

// readLimited reads a file of at most maxBytes. It returns an error for anything that is not a regular file: reading a
// pipe, for example, could block.
func readLimited(files fs.FS, name string, maxBytes int64) ([]byte, error) {
	info, err := fs.Stat(files, name)
	if err != nil {
		return nil, fmt.Errorf("look for it: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no file: write the stage's words into one")
	}
	f, err := files.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open it: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read it: %w", err)
	}
	if int64(len(text)) > maxBytes {
		return nil, fmt.Errorf("it has more than %d bytes, and no such file needs as many", maxBytes)
	}
	return text, nil
}

// maxStageBytes is the maximum size of a stage's file. A file with every setting is much smaller.
const maxStageBytes = 64 << 10

// readStage reads the file of a stage. Its error has a line for each of the first maxErrors problems, and a line with
// the number of further problems, if there are any.
func readStage(stages fs.FS, folder, stage string) (settingValues, error) {
	file := path.Join(folder, stage+".json")
	text, err := readLimited(stages, stage+".json", maxStageBytes)
	if errors.Is(err, fs.ErrNotExist) || stage+".json" == schemaFile {
		return nil, fmt.Errorf("there is no %s: write it, beginning from infra/stages/dev.json or "+
			"infra/stages/production.json, or name a stage that has one by STAGE=%s", file,
			strings.Join(stageNames(stages), "|"))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var values settingValues
	if err := json.Unmarshal(text, &values); err != nil { // this decoder refuses duplicate names
		return nil, fmt.Errorf("%s is no JSON of one object%s", file, syntaxErrorDetail(text, err))
	}
	if values == nil {
		return nil, fmt.Errorf("%s is no JSON of one object: it says null", file)
	}
	delete(values, "$schema")
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		def, ok := settingNamed(name)
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("%s: %w", file, unknownSettingError(name)))
		case def.contextOnly:
			errs = append(errs, fmt.Errorf("%s: %s is for the context (-c %s=…), where no stage has a file", file, name, name))
		default:
			if err := def.validate(values[name]); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", file, err))
			}
		}
	}
	// While a setting is invalid, missing settings are not reported: the invalid setting may be a missing one whose
	// name is misspelled.
	if values["protected"] != false && len(errs) == 0 {
		for _, name := range irreversible {
			if def, _ := settingNamed(name); values[name] == nil {
				errs = append(errs, fmt.Errorf("%s: say %q, which AWS cannot change afterwards: it %s (or say \"protected\": "+
					"false, of an installation to try things with)", file, name, def.requirement()))
			}
		}
	}
	if more := len(errs) - maxErrors; more > 0 {
		errs = append(errs[:maxErrors], fmt.Errorf("%s: and %d more", file, more))
	}
	return values, errors.Join(errs...)
}

// offset matches the position, in bytes, in an error text of the JSON decoder.
var offset = regexp.MustCompile(` after offset \d+`)

// syntaxErrorDetail returns the line and the reason of a syntax error in JSON. It returns "" if the JSON is valid but
// has another type.
func syntaxErrorDetail(text []byte, err error) string {
	syntaxErr, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return ""
	}
	line := 1 + bytes.Count(text[:min(int(syntaxErr.ByteOffset), len(text))], []byte("\n"))
	reason := offset.ReplaceAllString(strings.TrimPrefix(err.Error(), "jsontext: "), "")
	return fmt.Sprintf(": line %d: %s", line, strings.ReplaceAll(reason, "\n", " "))
}

// maxErrors is the maximum number of problems that are reported for a file.
const maxErrors = 12

// stageNames returns the stages that have a file.
func stageNames(stages fs.FS) (out []string) {
	files, err := fs.Glob(stages, "*.json")
	if err != nil {
		return nil // Glob fails only for an invalid pattern
	}
	for _, f := range files {
		if f != schemaFile {
			out = append(out, strings.TrimSuffix(f, ".json"))
		}
	}
	return out
}
