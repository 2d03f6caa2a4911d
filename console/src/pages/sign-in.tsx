// Asks for the token that a daemon wants from other machines.
import { useState } from "preact/hooks";
import { setToken } from "../api/client";
import { Field, Heading } from "../ui/basics";

export function SignIn() {
  const [text, setText] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    if (text.trim() !== "") setToken(text.trim());
  };
  return (
    <>
      <Heading title="Sign in" />
      <form class="panel" onSubmit={submit}>
        <div class="inside">
          <Field
            label="Token"
            hint={
              <>
                Made on the machine itself by <code>hotset token create --role admin NAME</code>. It is kept until this
                tab is closed.
              </>
            }
          >
            {(ids) => (
              <input
                {...ids}
                type="password"
                autocomplete="off"
                value={text}
                onInput={(event) => setText(event.currentTarget.value)}
              />
            )}
          </Field>
          <div class="decide">
            <button type="submit" class="primary">
              Sign in
            </button>
          </div>
        </div>
      </form>
    </>
  );
}
