// Choosing one of a few.
import { Field } from "./basics";

type SelectProps<T extends string> = {
  label: string;
  hint?: string;
  value: T;
  options: { value: T; text: string }[];
  choose: (value: T) => void;
};

export function Select<T extends string>({ label, hint, value, options, choose }: SelectProps<T>) {
  const pick = (text: string) => {
    const option = options.find((option) => option.value === text);
    if (option !== undefined) choose(option.value);
  };
  return (
    <Field label={label} hint={hint}>
      {(ids) => (
        <select {...ids} value={value} onChange={(event) => pick(event.currentTarget.value)}>
          {options.map((option) => (
            <option key={option.value} value={option.value}>
              {option.text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
