// Making a pool in three steps: what it is and on which SSDs, which volumes it caches, and what that will be like.
import { useState } from "preact/hooks";
import { call, explain } from "../api/client";
import type { Disk, Status } from "../api/types";
import { change, useReadOnly } from "../change";
import { status } from "../live";
import { go, link } from "../router";
import { usePolled, useStore } from "../store";
import { Action, Heading, Notice } from "../ui/basics";
import { ChooseSsds } from "./create-ssds";
import { type Draft, NEW, request, whyNotPool } from "./create-state";
import { Summary } from "./create-summary";
import { ChooseType } from "./create-type";
import { ChooseVolumes } from "./create-volumes";
import { useDisks } from "./disk-choice";

const STEPS = ["Pool", "Volumes", "Summary"];

export function Create() {
  const known = useStore(status);
  const [step, setStep] = useState(0);
  const [draft, setDraft] = useState(NEW);
  const [directory, setDirectory] = useState("");
  const [busy, setBusy] = useState(false);
  const readOnly = useReadOnly();
  const found = useDisks(directory);
  const plan = usePolled(
    async (signal) => (step === 2 ? call("post", "/api/v1/pools/plan", { body: request(draft), signal }) : null),
    `${step} ${JSON.stringify(request(draft))}`,
    null,
  );
  if (known === null) return null;
  const disks = found.value ?? [];
  const set = (part: Partial<Draft>) => setDraft({ ...draft, ...part });
  const reason = readOnly ?? whyNotNext(step, draft, known, disks, plan);
  const create = async () => {
    setBusy(true);
    const made = await change(`Pool ${draft.name} is made.`, () =>
      call("post", "/api/v1/pools", { body: request(draft) }),
    );
    if (made) {
      await enable(draft);
      go(link("pools", draft.name));
    }
    setBusy(false);
  };
  const last = step === STEPS.length - 1;
  return (
    <>
      <Heading title="Create pool" />
      <ol class="steps" aria-label="Steps">
        {STEPS.map((title, index) => (
          <li key={title} aria-current={index === step ? "step" : undefined}>
            <span>{title}</span>
          </li>
        ))}
      </ol>
      {step === 0 && (
        <>
          <ChooseType draft={draft} set={set} pools={known.pools} />
          <ChooseSsds
            draft={draft}
            set={set}
            disks={disks}
            error={found.error}
            directory={directory}
            setDirectory={setDirectory}
          />
        </>
      )}
      {step === 1 && <ChooseVolumes draft={draft} set={set} volumes={known.volumes} />}
      {step === 2 && plan.error !== null && <Notice tone="bad">{explain(plan.error)}</Notice>}
      {step === 2 && plan.value !== null && <Summary draft={draft} plan={plan.value} />}
      <div class="decide">
        {reason !== null && <span class="why">{reason}</span>}
        <button type="button" onClick={() => go(link("pools"))}>
          Cancel
        </button>
        {step > 0 && (
          <button type="button" onClick={() => setStep(step - 1)}>
            Back
          </button>
        )}
        <Action
          label={last ? "Create pool" : `Next: ${STEPS[step + 1]?.toLowerCase()}`}
          kind="primary"
          reason={reason}
          busy={busy}
          run={last ? create : () => setStep(step + 1)}
        />
      </div>
    </>
  );
}

type Plan = { value: unknown; error: unknown };

function whyNotNext(step: number, draft: Draft, known: Status, disks: Disk[], plan: Plan): string | null {
  const first = whyNotPool(draft, known.pools, disks);
  if (first !== null || step < 2) return first;
  if (plan.error !== null) return "The pool cannot be made like this.";
  return plan.value === null ? "Asking the daemon what it would be like …" : null;
}

async function enable(draft: Draft): Promise<void> {
  for (const name of draft.volumes) {
    await change(`Pool ${draft.name} caches volume ${name}.`, () =>
      call("put", "/api/v1/volumes/{name}/cache", { at: { name }, body: { pool: draft.name } }),
    );
  }
}
