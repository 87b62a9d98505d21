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

	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/runtime/durable"
)

// Client returns a Client that sends each request with the account key.
func (fx *Fixture) Client(key string) Client { return Client{fx, key} }

// Client sends requests to a Fixture with one account key. It implements events.Client, so that package events can
// create its sample objects in the fixture.
type Client struct {
	fx  *Fixture
	key string
}

// Call implements events.Client.
func (c Client) Call(method, target, body string) (status int, response []byte, err error) {
	resp := c.fx.Call(c.key, method, target, body)
	return resp.Status, []byte(resp.Body), nil
}

// Upload implements events.Client. Like Fixture.Upload, it must run in a synctest bubble.
func (c Client) Upload(_ map[string]string, address string) error {
	archive, err := Pack(Project("http://upstream.test"))
	if err != nil {
		return err
	}
	return c.fx.upload(address, archive)
}

// Upload simulates the upload of an archive to an upload address: it stores the archive as S3 does, and builds it as
// the builder does after S3's event, successfully or not. The operation of a successful build waits until all gateways
// serve the build, so call Upload only in a synctest bubble.
func (fx *Fixture) Upload(address string, archive []byte) {
	fx.Helper()
	if err := fx.upload(address, archive); err != nil {
		fx.Fatal(err)
	}
}

// Project returns the files, by name, of a small project with one route to an upstream.
func Project(upstream string) map[string]string {
	return map[string]string{
		"config/policies.json": `{"policies":[],"corsPolicies":[]}`,
		"config/routes.oas.json": fmt.Sprintf(
			`{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{"/a":{"get":{"operationId":"a",
			"responses":{"200":{"description":"ok"}},"x-gateway-route":{"corsPolicy":"none","handler":{"export":"urlForwardHandler",
			"module":"$import(@gatewright/runtime)","options":{"baseUrl":%q}},"policies":{"inbound":[]}}}}}}`, upstream),
	}
}

// Pack returns an archive of files, by name, as clients create it (contract 3.2).
func Pack(files map[string]string) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	a := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := a.WriteHeader(&tar.Header{
			Name: "./" + name, Typeflag: tar.TypeReg, Size: int64(len(files[name])),
			Mode: 0o644,
		}); err != nil {
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

func (fx *Fixture) upload(address string, archive []byte) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("read the upload's address: %w", err)
	}
	id := path.Base(u.Path)
	object := fx.Objects.Upload(blob.UploadKey(id), archive)
	operation, err := deployments.Open(fx.Parts).Claim(fx.Context(), deployments.Arrival{
		StatusID: id, ETag: object.ETag,
		UploadedOn: fx.Parts.Now(),
	})
	if err != nil {
		return fmt.Errorf("claim the upload %s: %w", id, err)
	}
	if err := fx.runOperation(operation); err != nil {
		return err
	}
	return fx.Objects.Delete(fx.Context(), blob.UploadKey(id))
}

// Finish runs a durable operation, as functions/operations does. It fails the test if the operation does not end. For a
// build, Finish must run in a synctest bubble.
func (fx *Fixture) Finish(operation string) {
	fx.Helper()
	if err := fx.runOperation(operation); err != nil {
		fx.Fatal(err)
	}
}

func (fx *Fixture) runOperation(operation string) error {
	engine, err := durable.Engine(fx.Parts)
	if err != nil {
		return err
	}
	record, err := engine.Run(fx.Context(), operation)
	if err != nil {
		return fmt.Errorf("run the operation %s: %w", operation, err)
	}
	if !record.Ended() {
		return fmt.Errorf("the operation %s has not ended: its state is %s", operation, record.State)
	}
	return nil
}

// FinishAll runs all durable operations that have not ended, until all have ended. After each round it advances the
// clock by an hour, because an operation can wait for a time. It fails the test if an operation has not ended after 20
// rounds.
func (fx *Fixture) FinishAll() {
	fx.Helper()
	engine, err := durable.Engine(fx.Parts)
	if err != nil {
		fx.Fatal(err)
	}
	const rounds = 20
	for range rounds {
		operations, err := engine.List(fx.Context())
		if err != nil {
			fx.Fatal(err)
		}
		running := 0
		for _, r := range operations {
			if r.Ended() {
				continue
			}
			running++
			if _, err := engine.Run(fx.Context(), r.ID); err != nil {
				fx.Fatal(err)
			}
		}
		if running == 0 {
			return
		}
		fx.Now = fx.Now.Add(time.Hour)
	}
	fx.Fatalf("operations still run after %d rounds, want them to end", rounds)
}
