// Asks for the token that a daemon wants from other machines.
import { useState } from "preact/hooks";
import { setToken, token } from "../api/client";
import { Heading } from "../ui/basics";
import { TextField } from "../ui/text-field";

/** `refused`: what the daemon said of the token that it was given. */
export function SignIn({ refused }: { refused: string }) {
  const [text, setText] = useState("");
  const [given, setGiven] = useState(token() !== null);
  const submit = (event: Event) => {
    event.preventDefault();
    if (text.trim() === "") return;
    setToken(text.trim());
    setGiven(true);
  };
  return (
    <>
      <Heading title="Sign in" />
      <form class="panel sign-in" onSubmit={submit}>
        <div class="inside">
          <TextField
            label="Token"
            type="password"
            error={given ? `${refused}. Is it whole, and of this daemon?` : null}
            hint={
              <>
                Made on the machine of the daemon: <code>hotset token create --role admin NAME</code>, or{" "}
                <code>--role view</code> for someone who only looks. It is kept until this tab is closed.
              </>
            }
            text={text}
            change={(typed) => {
              setText(typed);
              setGiven(false);
            }}
          />
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
