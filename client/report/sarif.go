package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/gatewright/gatewright/shared/disk"
	"github.com/gatewright/gatewright/shared/release"
)

// What is written of SARIF 2.1.0 (OASIS).
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		// ColumnKind says that columns count characters, as they do here, and not UTF-16's units.
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string       `json:"id"`
		ShortDescription sarifMessage `json:"shortDescription"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID              string            `json:"ruleId"`
		RuleIndex           int               `json:"ruleIndex"`
		Level               string            `json:"level"`
		Message             sarifMessage      `json:"message"`
		Locations           []sarifLocation   `json:"locations,omitempty"`
		PartialFingerprints map[string]string `json:"partialFingerprints"`
	}
	sarifLocation struct {
		PhysicalLocation struct {
			ArtifactLocation struct {
				URI       string `json:"uri"`
				URIBaseID string `json:"uriBaseId"`
			} `json:"artifactLocation"`
			Region *sarifRegion `json:"region,omitempty"`
		} `json:"physicalLocation"`
		LogicalLocations []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn"`
	}
	sarifLogical struct {
		FullyQualifiedName string `json:"fullyQualifiedName"`
	}
)

// SARIF is the report as scanners exchange it: all problems, with paths from the repository's top.
func (r Report) SARIF() ([]byte, error) {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "gatewright", Version: release.Version()}
	indexes := map[string]int{}
	for i, of := range []rule{ofRoutes, ofPolicies, ofSettings, ofFolder} {
		indexes[of.id] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{of.id, sarifMessage{"What a build says of " + of.name + "."}})
	}
	for _, f := range r.all() {
		of := describe(f)
		result := sarifResult{
			RuleID: of.id, RuleIndex: indexes[of.id], Level: f.level(), Message: sarifMessage{f.Message},
			PartialFingerprints: map[string]string{"problem/v1": fingerprint(r, f)},
		}
		if f.File != "" {
			var at sarifLocation
			at.PhysicalLocation.ArtifactLocation.URI = (&url.URL{Path: r.path(f.File)}).EscapedPath()
			at.PhysicalLocation.ArtifactLocation.URIBaseID = "%SRCROOT%"
			if f.Line > 0 {
				at.PhysicalLocation.Region = &sarifRegion{f.Line, max(1, f.Column)}
			}
			if f.Path != "" {
				at.LogicalLocations = []sarifLogical{{f.Path}}
			}
			result.Locations = []sarifLocation{at}
		}
		run.Results = append(run.Results, result)
	}
	text, err := json.MarshalIndent(sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run},
	}, "", "  ")
	return append(text, '\n'), err
}

// WriteFile writes a report to a file, all of it or nothing: what was there stays until it is whole. Of a link it is the file that it leads to, which
// has to be there.
func WriteFile(name string, text []byte) (err error) {
	switch info, err := os.Stat(name); {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("write %s: it is no file", name)
	case err == nil:
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return fmt.Errorf("write %s: %w", name, disk.Cause(err))
		}
	default:
		if _, err := os.Lstat(name); err == nil {
			return fmt.Errorf("write %s: it is a link to a file that is not there: make that file, or remove the link", name)
		}
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, disk.Cause(err))
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Close()) // for who picks it up, as a pipeline's next step does
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", name, disk.Cause(err))
	}
	return nil
}
