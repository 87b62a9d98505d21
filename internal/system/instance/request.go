package instance

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// requestTimeout bounds one request to the management API.
const requestTimeout = time.Minute

// Request sends a request to the management API with an account key. It returns the status and the body of the response.
func (i *Instance) Request(ctx context.Context, key, method, path, body string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, i.API+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("create a request: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := cmp.Or(i.Client, http.DefaultClient).Do(r)
	if err != nil {
		return 0, nil, fmt.Errorf("send a request to the management API: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, fmt.Errorf("read a response: %w", err)
	}
	return resp.StatusCode, raw, nil
}

// RequestJSON sends a request with the first account's key and decodes the response into out, unless out is nil. It returns an error if the status
// is not 2xx.
func (i *Instance) RequestJSON(ctx context.Context, out any, method, path, body string) error {
	status, raw, err := i.Request(ctx, i.Key, method, path, body)
	if err != nil {
		return err
	}
	if status/100 != 2 {
		return fmt.Errorf("%s %s status = %d, want 2xx: %s", method, path, status, raw)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("read the response to %s %s: %w", method, path, err)
	}
	return nil
}

// Build is the status of the build of an upload, as the management API returns it.
type Build struct {
	Status       string // IN_PROGRESS, or SUCCESS if the build has succeeded and is deployed, or a failure
	URL          string
	BuildResult  json.RawMessage
	DeploymentID string `json:"-"`
}

// Deploy uploads an archive to the branch main of an account's project, and waits until its build has ended.
func (i *Instance) Deploy(ctx context.Context, account, project string, archive []byte) (Build, error) {
	var issued struct{ UploadURL, DeploymentID string }
	err := i.RequestJSON(ctx, &issued, http.MethodPost, "/v1/deployments/sources",
		fmt.Sprintf(`{"accountName":%q,"projectName":%q,"branchName":"main"}`, account, project))
	if err != nil {
		return Build{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, issued.UploadURL, bytes.NewReader(archive))
	if err != nil {
		return Build{}, fmt.Errorf("create an upload: %w", err)
	}
	resp, err := cmp.Or(i.Client, http.DefaultClient).Do(r)
	if err != nil {
		return Build{}, fmt.Errorf("upload: %w", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Build{}, fmt.Errorf("upload: status = %d, want 200", resp.StatusCode)
	}
	path := "/v1/accounts/" + account + "/projects/" + project + "/deployment-status/" + issued.DeploymentID
	for {
		b := Build{DeploymentID: issued.DeploymentID}
		if err := i.RequestJSON(ctx, &b, http.MethodGet, path, ""); err != nil {
			return b, err
		}
		if b.Status != "IN_PROGRESS" {
			return b, nil
		}
		select {
		case <-ctx.Done():
			return b, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Archive packs files in the format of uploads.
func Archive(files map[string]string) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	a := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		// Writes to memory do not fail.
		_ = a.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(files[name])), Mode: 0o644})
		_, _ = io.WriteString(a, files[name])
	}
	_ = a.Close()
	_ = z.Close()
	return out.Bytes()
}
