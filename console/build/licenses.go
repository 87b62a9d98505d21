package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// licenses returns a file with the licenses of all packages in the bundle, because each license requires that its text comes with every
// copy. esbuild's description of the bundle lists the packages. The name of the file contains a digest, like the names of all other files.
func licenses(root, metafile string) (file, error) {
	var made struct {
		Outputs map[string]struct {
			Inputs map[string]struct {
				BytesInOutput int `json:"bytesInOutput"`
			} `json:"inputs"`
		} `json:"outputs"`
	}
	if err := json.Unmarshal([]byte(metafile), &made); err != nil {
		return file{}, fmt.Errorf("read esbuild's description of the bundle: %w", err)
	}
	var packages []string
	for _, output := range made.Outputs {
		for input, of := range output.Inputs {
			if name := packageOf(input); name != "" && of.BytesInOutput > 0 {
				packages = append(packages, name)
			}
		}
	}
	slices.Sort(packages)
	var text bytes.Buffer
	for _, name := range slices.Compact(packages) {
		folder := filepath.Join(root, "node_modules", filepath.FromSlash(name))
		about, err := os.ReadFile(filepath.Join(folder, "package.json")) //nolint:gosec // G304: of a package that is in the bundle
		if err != nil {
			return file{}, fmt.Errorf("read the package.json of %s: %w", name, err)
		}
		var is struct{ Version, License string }
		if err := json.Unmarshal(about, &is); err != nil {
			return file{}, fmt.Errorf("read the package.json of %s: %w", name, err)
		}
		license, err := licenseIn(folder)
		if err != nil {
			return file{}, fmt.Errorf("find the license of %s: %w", name, err)
		}
		fmt.Fprintf(&text, "%s %s (%s)\n\n%s\n\n", name, is.Version, is.License, bytes.TrimSpace(license))
	}
	const digits = 8
	sum := fmt.Sprintf("%X", sha256.Sum256(text.Bytes()))
	return file{"licenses-" + sum[:digits] + ".txt", text.Bytes()}, nil
}

// packageOf returns the package that an input belongs to, or "" for the console's own files.
func packageOf(input string) string {
	_, within, ok := strings.Cut(input, "node_modules/")
	if !ok {
		return ""
	}
	parts := strings.Split(within, "/")
	if strings.HasPrefix(within, "@") && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// licenseIn returns the license text in the folder of a package.
func licenseIn(folder string) ([]byte, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if name := strings.ToLower(entry.Name()); strings.HasPrefix(name, "license") || strings.HasPrefix(name, "licence") {
			return os.ReadFile(filepath.Join(folder, entry.Name())) //nolint:gosec // G304: of a package that is in the bundle
		}
	}
	return nil, fmt.Errorf("%s contains no file named license", folder)
}
