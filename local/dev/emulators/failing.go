package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// failingResource is the logical ID of the resource that makes an update to the failing version
// fail. CloudFormation cannot create it, because it waits for a signal that is never sent.
const failingResource = "NobodySignals"

// breakVersion creates the failing version: a copy of this version whose deployment fails. CloudFormation creates its
// additional resource last, so that functions are already released and called for some seconds before the update fails.
func (s *suite) breakVersion(context.Context) error {
	from, to := filepath.Join(s.dir, thisVersion), filepath.Join(s.dir, failing)
	files, err := failingFiles(from)
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return fmt.Errorf("make a folder for the failing version: %w", err)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("read the synthesized files: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(to, e.Name())
		if text, changed := files[e.Name()]; changed {
			err = os.WriteFile(path, []byte(text), 0o600)
		} else { // files such as the functions do not differ
			err = os.Symlink(filepath.Join(from, e.Name()), path)
		}
		if err != nil {
			return fmt.Errorf("write the failing version: %w", err)
		}
	}
	return nil
}

// failingFiles returns the contents of the files that differ between the synthesized version in from and the failing
// version: the template, and the files that contain the name of the uploaded template. The name has to differ, because
// the CDK uploads each name only once.
func failingFiles(from string) (map[string]string, error) {
	const template, assets, manifest = "gatewright-" + stage + ".template.json", "gatewright-" + stage + ".assets.json",
		"manifest.json"
	texts := map[string]string{}
	for _, name := range []string{template, assets, manifest} {
		raw, err := os.ReadFile(filepath.Join(from, name)) //nolint:gosec // G304: our own file
		if err != nil {
			return nil, fmt.Errorf("read the synthesized files: %w", err)
		}
		texts[name] = string(raw)
	}
	document := map[string]any{}
	if err := json.Unmarshal([]byte(texts[template]), &document); err != nil {
		return nil, fmt.Errorf("read the template: %w", err)
	}
	resources, ok := document["Resources"].(map[string]any)
	if !ok {
		return nil, errors.New("the template has no resources")
	}
	all := slices.Sorted(maps.Keys(resources))
	resources["Nobody"] = map[string]any{"Type": "AWS::CloudFormation::WaitConditionHandle"}
	resources[failingResource] = map[string]any{
		"Type": "AWS::CloudFormation::WaitCondition", "DependsOn": all,
		"Properties": map[string]any{"Handle": map[string]any{"Ref": "Nobody"}, "Timeout": "3"},
	}
	encoded, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("write the template: %w", err)
	}
	texts[template] = string(encoded)
	name := regexp.MustCompile(`"([0-9a-f]{64})": \{\s*"displayName": "gatewright-` +
		stage + ` Template"`).FindStringSubmatch(texts[assets])
	if name == nil {
		return nil, errors.New("the CDK no longer says under which name the template is uploaded: failing.go has to read " +
			"it otherwise")
	}
	sum := sha256.Sum256([]byte(texts[template]))
	for _, file := range []string{assets, manifest} {
		texts[file] = strings.ReplaceAll(texts[file], name[1], hex.EncodeToString(sum[:]))
	}
	return texts, nil
}
