// A proxy as people write it in Node: the answer is piped through.  node proxy.mjs PORT NEXT_URL
import http from "node:http";

const [port, next] = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: true });

http
  .createServer((request, response) => {
    if (request.url === "/healthz") return response.end();
    const { method, headers } = request;
    const asked = http.request(new URL(request.url, next), { method, headers, agent }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
      answer.on("aborted", () => response.destroy());
    });
    asked.on("error", () => response.destroy());
    response.on("close", () => asked.destroy());
    request.pipe(asked);
  })
  .listen(Number(port), "127.0.0.1");
