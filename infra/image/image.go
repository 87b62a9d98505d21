// Package image makes the container image of a long-lived service of its static
// binary, and uploads it to a registry, both through go-containerregistry: no
// Docker is needed, neither to describe an installation nor to deploy one.
//
// An image is one layer with its binary, a file beside it if it needs one, and the folders that it writes to. The same files
// make the same image, byte for byte, so that the description of an installation (package
// infra) names by its digest what Command publish uploads, and neither asks the other.
//
// What it is not: a way to build anything that needs a shell or a package. What a service trusts, its binary has in it.
//
// Read image.go for one image, layout.go for the images of all architectures as files,
// bill.go for what they are made of.
package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// entrypoint is the path of a service's binary in its image.
const entrypoint = "/service"

// User is the user and group that an image runs as: no file is theirs but in its volumes.
const User = 65532

// Contents is what an image has in it, and how it is run.
type Contents struct {
	// Binary is the file of a static binary for Linux, here.
	Binary string
	// Architecture is Go's name of the binary's: arm64 or amd64.
	Architecture string
	// Path is the binary's absolute path in the image, and what an image runs.
	Path string
	// Beside is the path of a file, here, that the image has in the folder of the binary, under the same name. It is "" for none.
	Beside string
	// Command are the arguments that it is run with where nobody names others.
	Command []string
	// Env is its environment, NAME=value each.
	Env []string
	// Volumes are the absolute paths of the folders that it may write to: its user's alone.
	Volumes []string
	// Ports are those that it listens on, such as 443/tcp.
	Ports []string
	// Labels say where it comes from, by the names of the OCI
	// (https://specs.opencontainers.org/image-spec/annotations/).
	Labels map[string]string
}

// Of makes the image of a service's static binary for Linux. architecture is Go's name of
// it, arm64 or amd64. It has no labels: the digest follows from the binary alone.
func Of(binary, architecture string) (v1.Image, error) {
	return Make(Contents{Binary: binary, Architecture: architecture, Path: entrypoint})
}

// Make makes an image.
func Make(c Contents) (v1.Image, error) {
	raw, err := os.ReadFile(c.Binary)
	if err != nil {
		return nil, fmt.Errorf("read the binary of an image: %w", err)
	}
	layer, err := layerOf(c, raw)
	if err != nil {
		return nil, err
	}
	config := v1.Config{
		Entrypoint: []string{c.Path}, Cmd: c.Command, Env: c.Env, User: fmt.Sprintf("%d:%d", User, User), Labels: c.Labels,
	}
	for _, v := range c.Volumes {
		config.Volumes = with(config.Volumes, v)
	}
	for _, p := range c.Ports {
		config.ExposedPorts = with(config.ExposedPorts, p)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	made, err := mutate.ConfigFile(base, &v1.ConfigFile{
		OS: "linux", Architecture: c.Architecture, RootFS: v1.RootFS{Type: "layers"}, Config: config,
	})
	if err == nil {
		made, err = mutate.AppendLayers(made, layer)
	}
	if err != nil {
		return nil, fmt.Errorf("make an image: %w", err)
	}
	return made, nil
}

func with(set map[string]struct{}, name string) map[string]struct{} {
	if set == nil {
		set = map[string]struct{}{}
	}
	set[name] = struct{}{}
	return set
}

// layerOf is the one layer. It has no time and no owner's name: they would be the building
// machine's.
func layerOf(c Contents, binary []byte) (v1.Layer, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	var folders []string // each once, those above before those below
	for _, path := range append([]string{path.Dir(c.Path)}, c.Volumes...) {
		for n := range strings.Count(strings.Trim(path, "/"), "/") + 1 {
			above := strings.Join(strings.Split(strings.Trim(path, "/"), "/")[:n+1], "/") + "/"
			if above != "/" && !slices.Contains(folders, above) {
				folders = append(folders, above)
			}
		}
	}
	var err error
	for _, name := range folders {
		header := &tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o555, Format: tar.FormatPAX}
		// A new volume has the owner and the mode of what it is mounted over.
		if slices.Contains(c.Volumes, "/"+strings.TrimSuffix(name, "/")) {
			header.Mode, header.Uid, header.Gid = 0o700, User, User
		}
		err = errors.Join(err, w.WriteHeader(header))
	}
	file := func(name string, mode int64, content []byte) {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(name, "/"), Mode: mode, Size: int64(len(content)), Format: tar.FormatPAX}
		err = errors.Join(err, w.WriteHeader(header), write(w, content))
	}
	file(c.Path, 0o555, binary)
	if c.Beside != "" {
		beside, missing := os.ReadFile(c.Beside)
		err = errors.Join(err, missing)
		file(path.Join(path.Dir(c.Path), filepath.Base(c.Beside)), 0o444, beside)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("write a layer: %w", err)
	}
	// Without caching, whoever reads the layer compresses it again: the digest does, and so does each writer.
	made, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("make a layer: %w", err)
	}
	return made, nil
}

func write(w io.Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}

// Repository is the name of the repository that images are uploaded to, of an account
// and a region: the one that `cdk bootstrap` makes for them. A repository of the stack's
// own would have to be there before the stack is.
func Repository(account, region string) string {
	return "cdk-hnb659fds-container-assets-" + account + "-" + region
}

// Upload puts an image into a repository, host/name, under a tag that is its
// digest in hexadecimal, and reports whether it was missing: a registry whose tags
// never change refuses one that is there already.
func Upload(ctx context.Context, i v1.Image, repository string, as authn.Authenticator, by http.RoundTripper) (missing bool, err error) {
	digest, err := i.Digest()
	if err != nil {
		return false, fmt.Errorf("digest an image: %w", err)
	}
	tag, err := name.NewTag(repository + ":" + digest.Hex)
	if err != nil {
		return false, fmt.Errorf("name an image: %w", err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuth(as), remote.WithTransport(by)}
	_, err = remote.Head(tag, options...)
	if err == nil {
		return false, nil
	}
	if refused, ok := errors.AsType[*transport.Error](err); !ok || refused.StatusCode != http.StatusNotFound {
		return false, fmt.Errorf("look for an image in %s: %w", repository, err)
	}
	if err := remote.Write(tag, i, options...); err != nil {
		return false, fmt.Errorf("upload an image to %s: %w", repository, err)
	}
	return true, nil
}
