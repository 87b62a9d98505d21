// Command images makes the container images of the product and of each of its services, for
// amd64 and arm64, of the binaries that `make image` has built: for each of them an OCI image
// layout, the same as a tar file, and the bill of materials of each binary. It needs no Docker
// and no network, and makes the same bytes of the same binaries wherever it runs.
//
// What it is not: an upload. Command publish uploads what an installation in AWS runs, and
// every engine reads these layouts. There is only this file; package image has the formats.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/infra/image"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/docsearch/minilm"
	"github.com/gatewright/gatewright/shared/release"
)

// dataDir is where the product's image has its data: the one folder that it writes to.
const dataDir = "/var/lib/gatewright"

func main() {
	o := options{version: release.Version()}
	architectures := flag.String("architectures", "amd64 arm64", "the architectures, with spaces between")
	flag.StringVar(&o.tree, "tree", ".", "the checkout's folder")
	flag.StringVar(&o.binaries, "binaries", "dist", "the folder with a folder of binaries for each architecture")
	flag.StringVar(&o.out, "out", filepath.Join("dist", "images"), "the folder to write into")
	flag.StringVar(&o.revision, "revision", "", "the commit of the source, for the labels")
	flag.StringVar(&o.command, "command", "serve", "what the product's image runs, with spaces between the arguments")
	flag.Parse()
	o.architectures = strings.Fields(*architectures)
	if err := write(o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

type options struct {
	tree, binaries, out, version, revision, command string
	// architectures are Go's names of those that there are binaries for, in their order in an index.
	architectures []string
}

// program is what becomes an image.
type program struct {
	name string
	// binary is its path below an architecture's folder.
	binary   string
	title    string
	contents image.Contents
}

// server is the product's binary, in an image as in the folder that it comes from.
const server = "gatewright-server"

// programs are the product and the services, which are asked for what they declare.
func programs(tree, command string) []program {
	all := []program{{"gatewright", server, "The whole product on one machine.", image.Contents{
		Path: "/" + server, Command: strings.Fields(command),
		// Temporary files are the data's neighbours: there is no other folder to write to.
		Env:     []string{config.VarDataDir + "=" + dataDir, "TMPDIR=" + dataDir},
		Volumes: []string{dataDir}, Ports: []string{"80/tcp", "443/tcp"},
		Beside: filepath.Join(tree, "shared", "docsearch", "minilm", minilm.FileName),
	}}}
	for _, s := range functions.Services() {
		all = append(all, program{"gatewright-" + s.Name, filepath.Join(s.Name, "container"), s.Does, image.Contents{
			Path: "/service", Ports: []string{fmt.Sprintf("%d/tcp", s.Port.Listens)},
		}})
	}
	return all
}

// write makes the images and tells of each where it is and by what digest it is known.
func write(o options, out io.Writer) error {
	if err := os.MkdirAll(o.out, 0o750); err != nil {
		return fmt.Errorf("make the images' folder: %w", err)
	}
	for _, p := range programs(o.tree, o.command) {
		labels := p.labels(o)
		var images []v1.Image
		for _, architecture := range o.architectures {
			c := p.contents
			c.Binary, c.Architecture, c.Labels = filepath.Join(o.binaries, architecture, p.binary), architecture, labels
			made, err := image.Make(c)
			if err != nil {
				return err
			}
			bill, err := image.Bill(c.Binary, o.version)
			if err != nil {
				return err
			}
			path := filepath.Join(o.out, p.name+"-"+architecture+".cdx.json")
			if err := os.WriteFile(path, bill, 0o644); err != nil { //nolint:gosec // G306: for everybody to read
				return fmt.Errorf("write a bill of materials: %w", err)
			}
			images = append(images, made)
		}
		of, err := image.Index(labels, images...)
		if err != nil {
			return err
		}
		folder := filepath.Join(o.out, p.name)
		if err := image.WriteLayout(folder, p.name+":"+o.tag(), of); err != nil {
			return err
		}
		digest, err := of.Digest()
		if err != nil {
			return fmt.Errorf("digest an image: %w", err)
		}
		_, _ = fmt.Fprintf(out, "%s.tar %s\n", folder, digest)
	}
	return nil
}

// tag is by what an engine lists the image.
func (o options) tag() string {
	if o.version == "" {
		return "latest"
	}
	return o.version
}

// labels say where an image comes from. There is none with a time: it would be that of a build.
func (p program) labels(o options) map[string]string {
	const name = "org.opencontainers.image."
	labels := map[string]string{
		name + "title": p.title, name + "source": "https://" + modulePath, name + "licenses": "Apache-2.0",
	}
	if o.version != "" {
		labels[name+"version"] = o.version
	}
	if o.revision != "" {
		labels[name+"revision"] = o.revision
	}
	return labels
}

// modulePath is the path of this module, which is where its source is.
const modulePath = "github.com/gatewright/gatewright"
