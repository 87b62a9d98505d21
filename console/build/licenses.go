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

// licenses returns a file with the licenses of all packages in the bundle, because each license requires that every
// copy includes the text of the license. metafile is esbuild's description of the bundle, which lists the packages. The
// name of the file contains a digest, like the names of all other files except the page.
func licenses(root, metafile string) (file, error) {
	var metadata struct {
		Outputs map[string]struct {
			Inputs map[string]struct {
				BytesInOutput int `json:"bytesInOutput"`
			} `json:"inputs"`
		} `json:"outputs"`
	}
	if err := json.Unmarshal([]byte(metafile), &metadata); err != nil {
		return file{}, fmt.Errorf("read esbuild's description of the bundle: %w", err)
	}
	var packages []string
	for _, output := range metadata.Outputs {
		for input, contribution := range output.Inputs {
			if name := packageName(input); name != "" && contribution.BytesInOutput > 0 {
				packages = append(packages, name)
			}
		}
	}
	slices.Sort(packages)
	var text bytes.Buffer
	for _, name := range slices.Compact(packages) {
		folder := filepath.Join(root, "node_modules", filepath.FromSlash(name))
		//nolint:gosec // G304: a file of a package in the bundle
		manifest, err := os.ReadFile(filepath.Join(folder, "package.json"))
		if err != nil {
			return file{}, fmt.Errorf("read the package.json of %s: %w", name, err)
		}
		var pkg struct{ Version, License string }
		if err := json.Unmarshal(manifest, &pkg); err != nil {
			return file{}, fmt.Errorf("read the package.json of %s: %w", name, err)
		}
		license, err := readLicense(folder)
		if err != nil {
			return file{}, fmt.Errorf("find the license of %s: %w", name, err)
		}
		fmt.Fprintf(&text, "%s %s (%s)\n\n%s\n\n", name, pkg.Version, pkg.License, bytes.TrimSpace(license))
	}
	const digits = 8
	sum := fmt.Sprintf("%X", sha256.Sum256(text.Bytes()))
	return file{"licenses-" + sum[:digits] + ".txt", text.Bytes()}, nil
}

// packageName returns the npm package that an input of the bundle belongs to, or "" for the console's own files.
func packageName(input string) string {
	_, rest, ok := strings.Cut(input, "node_modules/")
	if !ok {
		return ""
	}
	parts := strings.Split(rest, "/")
	if strings.HasPrefix(rest, "@") && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// readLicense returns the license text in the folder of a package.
func readLicense(folder string) ([]byte, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if name := strings.ToLower(entry.Name()); strings.HasPrefix(name, "license") || strings.HasPrefix(name, "licence") {
			return os.ReadFile(filepath.Join(folder, entry.Name())) //nolint:gosec // G304: a file of a package in the bundle
		}
	}
	return nil, fmt.Errorf("%s contains no file named license", folder)
}
