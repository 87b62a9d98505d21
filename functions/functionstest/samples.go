package functionstest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/durable"
)

// Client makes the requests of samples with a caller's key.
func (w *World) Client(key string) Client { return Client{w, key} }

// Client is one caller, as package events wants it.
type Client struct {
	w   *World
	key string
}

// Ask implements events.Client.
func (c Client) Ask(method, target, body string) (status int, answer []byte, err error) {
	a := c.w.Call(c.key, method, target, body)
	return a.Status, []byte(a.Body), nil
}

// Upload implements events.Client. As for World.Upload, this belongs into a
// synctest bubble.
func (c Client) Upload(_ map[string]string, address string) error {
	archive, err := Pack(Project("http://upstream.test"))
	if err != nil {
		return err
	}
	return c.w.upload(address, archive)
}

// Upload does what happens to an archive that is put to an upload's address: S3
// stores it, and the builder that hears of it builds it, with success or not.
// The build waits until every gateway has heard of it, so that this belongs
// into a synctest bubble.
func (w *World) Upload(address string, archive []byte) {
	w.Helper()
	if err := w.upload(address, archive); err != nil {
		w.Fatal(err)
	}
}

// Project is a small project with one route, to an upstream: its files by name.
func Project(upstream string) map[string]string {
	return map[string]string{
		"config/policies.json": `{"policies":[],"corsPolicies":[]}`,
		"config/routes.oas.json": fmt.Sprintf(`{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{"/a":{"get":{"operationId":"a",
			"responses":{"200":{"description":"ok"}},"x-gateway-route":{"corsPolicy":"none","handler":{"export":"urlForwardHandler",
			"module":"$import(@gatewright/runtime)","options":{"baseUrl":%q}},"policies":{"inbound":[]}}}}}}`, upstream),
	}
}

// Pack packs files, by their names, as clients do (contract 3.2).
func Pack(files map[string]string) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	a := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := a.WriteHeader(&tar.Header{Name: "./" + name, Typeflag: tar.TypeReg, Size: int64(len(files[name])), Mode: 0o644}); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := io.WriteString(a, files[name]); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	if err := a.Close(); err != nil {
		return nil, fmt.Errorf("pack a project: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("compress a project: %w", err)
	}
	return out.Bytes(), nil
}

func (w *World) upload(address string, archive []byte) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("read the upload's address: %w", err)
	}
	id := path.Base(u.Path)
	object := w.Objects.Upload(blob.UploadKey(id), archive)
	operation, err := deployments.Open(w.Parts).Claim(w.Context(), deployments.Arrival{StatusID: id, ETag: object.ETag, On: w.Parts.Now()})
	if err != nil {
		return fmt.Errorf("claim the upload %s: %w", id, err)
	}
	if err := w.run(operation); err != nil {
		return err
	}
	return w.Objects.Delete(w.Context(), blob.UploadKey(id))
}

// Finish carries out a durable operation to its end, as the function that hears
// of the table's changes does. A build's belongs into a synctest bubble.
func (w *World) Finish(operation string) {
	w.Helper()
	if err := w.run(operation); err != nil {
		w.Fatal(err)
	}
}

func (w *World) run(operation string) error {
	engine, err := durable.Engine(w.Parts)
	if err != nil {
		return err
	}
	record, err := engine.Run(w.Context(), operation)
	if err != nil {
		return fmt.Errorf("carry out the operation %s: %w", operation, err)
	}
	if !record.Ended() {
		return fmt.Errorf("the operation %s is still at %s", operation, record.State)
	}
	return nil
}

// Settle carries out every durable operation that has been begun, to its end. The
// clock moves on by an hour for those that wait.
func (w *World) Settle() {
	w.Helper()
	engine, err := durable.Engine(w.Parts)
	if err != nil {
		w.Fatal(err)
	}
	const rounds = 20
	for range rounds {
		all, err := engine.List(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		open := 0
		for _, r := range all {
			if r.Ended() {
				continue
			}
			open++
			if _, err := engine.Run(w.Context(), r.ID); err != nil {
				w.Fatal(err)
			}
		}
		if open == 0 {
			return
		}
		w.Now = w.Now.Add(time.Hour)
	}
	w.Fatalf("operations have not ended after %d rounds", rounds)
}
