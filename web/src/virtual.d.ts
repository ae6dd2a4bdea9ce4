// What build.mjs puts into the planner's page.
declare module 'virtual:planner-wasm' {
  const base64: string;
  export default base64;
}
declare module 'virtual:planner-files' {
  export const clusters: {[name: string]: string}; // texts of the files, by their names
  export const models: {[name: string]: string};
  export const stacks: {[name: string]: string};
}
