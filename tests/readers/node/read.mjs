// Read streams with the libraries of npm: one job a line of JSON on stdin, what came of it as one line on stdout.
//
// {"job": 1, "reader": "openai-node", "origin": "http://127.0.0.1:1", "path": "/v1/…", "n": 7, "api": "chat"}
// {"job": 1, "events": […], "final": …, "error": "…"}

import { createInterface } from 'node:readline'
import { createParser } from 'eventsource-parser'
import OpenAI from 'openai'

const ASKED = { model: 'm', stream: true }
const said = [{ role: 'user', content: '?' }]

const clients = new Map()
const clientOf = (origin) => {
  if (!clients.has(origin)) {
    clients.set(origin, new OpenAI({ apiKey: 'no-key', baseURL: `${origin}/v1`, maxRetries: 0, logLevel: 'off' }))
  }
  return clients.get(origin)
}

const ask = {
  chat: (client, query) => client.chat.completions.create({ ...ASKED, messages: said }, { query }),
  completions: (client, query) => client.completions.create({ ...ASKED, prompt: '?' }, { query }),
  responses: (client, query) => client.responses.create({ ...ASKED, input: '?' }, { query }),
}

const readers = {
  async 'openai-node'(job, told) {
    for await (const event of await ask[job.api](clientOf(job.origin), { n: job.n })) {
      told.events.push(event)
      if (event.type === 'response.completed') told.final = event.response
    }
    if (job.api === 'chat') told.final = said_in(told.events)
  },
  async 'eventsource-parser'(job, told) {
    const response = await fetch(`${job.origin}${job.path}?n=${job.n}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(ASKED),
    })
    const parser = createParser({
      onEvent: ({ event, data, id }) => told.events.push([event ?? 'message', data, id ?? null]),
      onRetry: (retry) => told.events.push(['retry', retry]),
    })
    let last = ''
    for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
      parser.feed(text)
      last = text.at(-1) ?? last
    }
    if (last === '\r') parser.feed('\n') // it holds back a CR, as a LF may follow
  },
}

// The text and the calls of all chunks together.
const said_in = (chunks) => {
  const final = {}
  for (const { choices } of chunks) {
    for (const { index, delta, finish_reason } of choices) {
      const choice = (final[index] ??= { content: '', calls: '', finish: null })
      choice.content += delta?.content ?? ''
      choice.calls += (delta?.tool_calls ?? []).map((call) => call.function?.arguments ?? '').join('')
      choice.finish = finish_reason ?? choice.finish
    }
  }
  return final
}

const described = (error) => {
  const known = [error.status, error.type, error.code, error.error && JSON.stringify(error.error)]
  const cause = error.cause?.code ? ` from ${error.cause.code}` : ''
  return `${error.constructor.name}${cause}${known.filter(Boolean).map((fact) => ` ${fact}`).join('')}: ${error.message}`
}

for await (const line of createInterface({ input: process.stdin })) {
  const job = JSON.parse(line)
  const told = { job: job.job, events: [], final: null, error: '' }
  readers[job.reader](job, told)
    .catch((error) => (told.error = described(error)))
    .then(() => process.stdout.write(`${JSON.stringify(told)}\n`))
}
