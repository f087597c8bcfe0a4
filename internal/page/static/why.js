// What a job waits for.

import { $, node, say } from './dom.js';
import { get } from './api.js';
import { setFault, showProblem } from './change.js';
import { inZone, number } from './text.js';

function sentenceOf(j) {
  let text = `Job ${j.id} at ${j.topic}/${j.partition}/${j.offset} on ${j.node} waits for ${j.waits_for_text || j.waits_for}: ${inZone(j.why)}`;
  if (j.ahead > 0 && !text.includes('before it')) text += `; ${number(j.ahead)} ${j.ahead === 1 ? 'job goes' : 'jobs go'} before it on its node`;
  if (j.until && !text.includes('until')) text += `; at the latest until ${inZone(j.until)}`;
  return `${text}.`.replace('..', '.');
}

function answer(report, job) {
  const lines = (report.jobs ?? []).map((j) => node('p', sentenceOf(j))); // one that waits for another says what that waits for
  if (lines.length === 0 && report.progress) lines.push(node('p', `${job} ${report.progress.text} (${report.progress.node} works its partition).`));
  if (lines.length === 0) lines.push(node('p', `${report.silent.length ? 'No node that answered' : 'No node'} holds a job ${job}: it is settled, or its record was not fetched yet${report.silent.length ? ', or a node that did not answer holds it' : ''}. Its topic/partition/offset would say which.`));
  if (report.silent.length) lines.push(node('p', `These nodes did not answer: ${report.silent.join(', ')}.`));
  return lines;
}

$('ask-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const job = $('job').value.trim();
  setFault('job', job ? '' : 'Enter a job id, or topic/partition/offset.');
  if (!job) { $('job').focus(); return; }
  $('ask-answer').replaceChildren(node('p', 'Asking the nodes…'));
  try {
    const report = await get(`why?job=${encodeURIComponent(job)}`);
    $('ask-answer').replaceChildren(...answer(report, job));
  } catch (error) {
    $('ask-answer').replaceChildren();
    showProblem(error, ['job'], 'job-fault');
  }
});

$('job').addEventListener('input', () => say('job-fault', ''));
