package emulator

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/supervise"
)

// Credentials sign requests to the S3 of an installation.
type Credentials struct {
	AccessKeyID     string `json:"accessKeyId"`
	SecretAccessKey string `json:"secretAccessKey"`
}

// accessKeyID must never change, because it is the owner of the bucket.
const accessKeyID = "gatewright"

const credentialsFile = "s3-credentials.json"

// LoadCredentials returns the installation's credentials, and creates them at the first start. It replaces credentials
// that it cannot read or use: no other program uses them, and the upload addresses that they signed expire after 15
// minutes.
func LoadCredentials(dir *datadir.Dir) (Credentials, error) {
	var c Credentials
	content, err := dir.Read(credentialsFile)
	if err == nil && json.Unmarshal(content, &c) == nil && c.AccessKeyID == accessKeyID && c.SecretAccessKey != "" {
		return c, nil
	}
	c = Credentials{AccessKeyID: accessKeyID, SecretAccessKey: randomHex(20)}
	content, err = json.Marshal(c)
	if err != nil {
		return Credentials{}, fmt.Errorf("encode credentials: %w", err)
	}
	if err := dir.Write(credentialsFile, append(content, '\n')); err != nil {
		return Credentials{}, err
	}
	return c, nil
}

// randomHex returns n random bytes in hexadecimal.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// S3Config is the configuration of the S3 server.
type S3Config struct {
	Credentials
	// Address is the host and port on which the server listens.
	Address string `json:"address"`
	// Root is the folder of the objects.
	Root string `json:"root"`
	// Sidecar is the folder for the attributes of objects, on a file system without extended attributes.
	Sidecar string `json:"sidecar"`
}

// S3Options are the options of StartS3.
type S3Options struct {
	Dir *datadir.Dir
	// Program is the path of the emulators' program.
	Program     string
	Credentials Credentials
	// Created is called with the event of every stored object, from one goroutine. It may block. Events can be lost if
	// a process dies or if too many events are waiting. A receiver that needs every object has to list the objects when
	// it starts.
	Created func(events.S3Event)
	Log     *slog.Logger
}

// StartS3 starts an S3 emulator with its objects in o.Dir, and waits until it responds.
func StartS3(ctx context.Context, o S3Options) (*Emulator, error) {
	root, err := o.Dir.CreateFolder(datadir.EmulatedObjects)
	if err != nil {
		return nil, err
	}
	return start(ctx, o.Dir, "s3", o.Log, func(port string) (supervise.Spec, error) {
		config, err := json.Marshal(S3Config{
			Credentials: o.Credentials,
			Address:     "127.0.0.1:" + port,
			Root:        root,
			Sidecar:     o.Dir.Path("s3-attributes"),
		})
		if err != nil {
			return supervise.Spec{}, fmt.Errorf("encode the S3 server's configuration: %w", err)
		}
		client := S3Client("http://127.0.0.1:"+port, o.Credentials)
		return supervise.Spec{
			Name:     "S3",
			Path:     o.Program,
			Args:     []string{S3ServerCommand},
			Env:      environment(),
			Input:    append(config, '\n'),
			ReadPipe: func(r io.Reader) { forward(r, o.Created) },
			Ready: func(ctx context.Context) error {
				_, err := client.ListBuckets(ctx, &s3.ListBucketsInput{})
				return err
			},
		}, nil
	})
}

// eventQueueSize is the maximum number of events that wait for a slow receiver. Further events are dropped.
const eventQueueSize = 4096

// forward decodes the events in r, one per line, and passes them to created. It
// never stops reading for a slow receiver, so that the server does not block.
func forward(r io.Reader, created func(events.S3Event)) {
	queue := make(chan events.S3Event, eventQueueSize)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range queue {
			created(e)
		}
	}()
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break // r has ended; a last line without a line end is an incomplete event
		}
		var e events.S3Event
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		select {
		case queue <- e:
		default:
		}
	}
	close(queue)
	<-done
}

// S3Client returns a client of the S3 at endpoint. The client does not retry.
func S3Client(endpoint string, c Credentials) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(endpoint),
		Region:       Region,
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider(c.AccessKeyID, c.SecretAccessKey, ""),
		Retryer:      aws.NopRetryer{},
	})
}
