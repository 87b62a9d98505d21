package bedrock

import "time"

// Within gives a client another time for a request.
func (c *Client) Within(d time.Duration) *Client { c.within = d; return c }
