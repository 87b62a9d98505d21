/** The names in the path of a consumer, which its page and the parts of that page share. */
export interface ConsumerPath {
  accountName: string;
  bucketName: string;
  consumerName: string;
}
